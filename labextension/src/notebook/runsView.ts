/** What the runs of a notebook need of each of its views. */

import type { NotebookPanel } from '@jupyterlab/notebook';

import type { Change, RunModel } from '../model/run';
import type { Shown } from '../protocol/messages';

/** What one view of the notebook does for its runs. */
export interface View {
  readonly panel: NotebookPanel;
  /** What a code cell says now; `undefined`: there is none. */
  source(cellId: string): string | undefined;
  /** Whether the cell that asked still waits for its run. */
  isWaiting(run: RunModel): boolean;
  /** Whether the cell that asked has outputs that this page has not heard. */
  isUnheard(run: RunModel): boolean;
  /** Let the cell that asked show what it showed in the end. */
  finish(run: RunModel, shown: Shown): void;
  /** Write into the notebook what is different. */
  write(run: RunModel, changes: Change[]): void;
  /** Show what is different beside the notebook's cells. */
  draw(run: RunModel, changes: Change[]): void;
  /** A cell asks anew: its earlier cells go, those of the runs in `but` stay. */
  clear(parent: string, but: ReadonlySet<string>): void;
  /** A run was found that has replaced one whose cells and answer were saved; those of the runs in `but` stay. */
  supersede(run: RunModel, but: ReadonlySet<string>): void;
  /** A run is under way, or was found again. */
  meet(run: RunModel): void;
  /** A run's cells are gone. */
  part(run: RunModel): void;
}
