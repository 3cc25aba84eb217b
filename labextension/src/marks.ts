/** How a live cell is known in a notebook. */

import type { ICellModel } from '@jupyterlab/cells';

import { LIVE_ID } from './events';
import type { LiveCell } from './events';
import { digest } from './model';
import type { RunModel } from './model';

/** The tags of a live cell; tools that execute notebooks leave such a cell out. */
export const TAGS = ['rlm', 'skip-execution'];

/** What stands in `metadata.rlm` of a live cell. */
export interface Mark {
  v: number;
  run: string;
  parent: string;
  role: string;
  iteration: number;
  status: string;
  /** Digest of the source as it was written. */
  written: string;
  [key: string]: unknown;
}

/** The mark of a live cell; `null`: it is none, or became somebody's own. */
export function markOf(model: ICellModel): Mark | null {
  // most cells of a notebook are none: that is found out without a copy of their metadata
  const mark = LIVE_ID.test(model.id) ? (model.getMetadata('rlm') as Partial<Mark> | undefined) : undefined;
  return mark?.v === 1 && typeof mark.parent === 'string' ? (mark as Mark) : null;
}

/** Whether somebody has changed a live cell that was done. */
export function isEdited(model: ICellModel, mark: Mark): boolean {
  return mark.written !== digest(model.sharedModel.getSource());
}

/** The mark of a cell of a run, as its source is now. */
export function markFor(run: RunModel, cell: LiveCell): Mark {
  const facts: Partial<LiveCell['facts']> = { ...cell.facts };
  // these stand where other extensions look for them
  delete facts.started;
  delete facts.ended;
  return {
    v: 1,
    run: run.run,
    parent: run.parent,
    ...(run.facts.run_id ? { run_id: run.facts.run_id } : {}),
    ...facts,
    role: cell.facts.role,
    iteration: cell.facts.iteration,
    status: cell.status,
    written: digest(cell.source)
  };
}

/** When a cell was executed, where other extensions look for it. */
export function timesOf(cell: LiveCell): { execution?: Record<string, string> } {
  const { started, ended } = cell.facts;
  return started
    ? {
        execution: {
          'iopub.execute_input': started,
          'shell.execute_reply.started': started,
          ...(ended ? { 'shell.execute_reply': ended } : {})
        }
      }
    : {};
}
