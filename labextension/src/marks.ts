/** How a live cell is known in a notebook. */

import type { ICellModel } from '@jupyterlab/cells';

import { LIVE_ID } from './events';
import { digest } from './model';

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
  const mark = model.getMetadata('rlm') as Partial<Mark> | undefined;
  return LIVE_ID.test(model.id) && mark?.v === 1 && typeof mark.parent === 'string' ? (mark as Mark) : null;
}

/** Whether somebody has changed a live cell that was done. */
export function isEdited(model: ICellModel, mark: Mark): boolean {
  return mark.written !== digest(model.sharedModel.getSource());
}
