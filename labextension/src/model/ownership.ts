/** The runs that this tab of the browser has begun. */

const OWNED = 'rlm-jupyter:runs';

/** By their cells: a tab finds them again when it is reloaded. */
export function owned(): [string, string][] {
  try {
    return JSON.parse(window.sessionStorage.getItem(OWNED) ?? '[]') as [string, string][];
  } catch {
    return [];
  }
}

/** Remember that this tab shows the run of a cell. */
export function own(cell: string, run: string): void {
  const others = owned().filter(([other]) => other !== cell);
  try {
    window.sessionStorage.setItem(OWNED, JSON.stringify([...others.slice(-31), [cell, run]]));
  } catch {
    // without it a reload loses sight of the run, and nothing else
  }
}
