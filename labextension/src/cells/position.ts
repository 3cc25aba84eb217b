/** Where a live cell belongs, whatever of its run stands in the notebook already. */

export interface Spot {
  /** The cell, and the one that it stands right below; `null`: it is the run's first. */
  readonly id: string;
  readonly after: string | null;
  /** The cell that asked. */
  readonly parent: string;
  /** All cells of the run that are known here, in their order. */
  readonly order: readonly string[];
  /** Those of the run that stand there by their marks, known here or not. */
  readonly marked: readonly string[];
  /** How many cells the notebook has. */
  readonly length: number;
}

/**
 * The index at which it is put in: below the cell before it, else above those that come after it, else below the run's
 * last one, else below the cell that asked, else at the end.
 *
 * `index` gives the place of a cell in the notebook, or -1.
 */
export function spotOf(spot: Spot, index: (id: string) => number): number {
  const before = index(spot.after ?? spot.parent);
  if (before >= 0) {
    return before + 1;
  }
  // what it stands below has not arrived yet: it may stand above what has
  const later = spot.order.slice(spot.order.indexOf(spot.id) + 1).find(id => index(id) >= 0);
  if (later !== undefined) {
    return index(later);
  }
  // by their marks: a page that came late has not heard of all that stand there
  const last = Math.max(index(spot.parent), ...spot.marked.map(index));
  return last >= 0 ? last + 1 : spot.length;
}
