/** Which run a person means who has this cell active. */

import type { ICellModel } from '@jupyterlab/cells';

import { markOf } from '../model/marks';
import type { RunModel } from '../model/run';

/** That of the active cell, else the newest that is under way, else the newest. */
export function meantRun(runs: readonly RunModel[], active: ICellModel | undefined): RunModel | undefined {
  const mark = active ? markOf(active) : null;
  const newest = [...runs].reverse();
  return (
    newest.find(run => run.run === mark?.run || run.parent === active?.id) ??
    newest.find(run => !run.isOver) ??
    newest[0]
  );
}

/** The cell that asked for the run of the active cell, or the active cell itself where it is one of these. */
export function meantParent(parents: readonly string[], active: ICellModel | undefined): string | undefined {
  const mark = active ? markOf(active) : null;
  return mark?.parent ?? parents.find(parent => parent === active?.id);
}
