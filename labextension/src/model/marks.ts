/** How a live cell is known in a notebook. */

import type { ICellModel } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';

import { LIVE_ID } from '../protocol/messages';
import type { LiveCell } from '../protocol/messages';
import { digest } from './run';
import type { RunModel } from './run';

/** The tags of a live cell; tools that execute notebooks leave such a cell out. */
export const TAGS = ['rlm', 'skip-execution'];
/** Those of a cell that is left over from a run. */
export const LEFT_TAGS = [...TAGS, 'rlm-edit'];

/** What stands in `metadata.rlm` of a live cell. */
export interface Mark {
  v: number;
  run: string;
  parent: string;
  role: string;
  iteration: number;
  status: string;
  /** The number of a code cell in the kernel of its run: the cell's own is that of the notebook's kernel. */
  count?: number;
  /** The kernel of its run is the notebook's own. */
  here?: true;
  /** The cell's id: Lab gives Markdown that is cut and pasted another one. */
  cell: string;
  /** Digest of the source as it was written. */
  written: string;
  /** The source whose outputs a code cell shows, once a person has edited it; without it, the run's own. */
  base?: string;
  /** A person ran it in the kernel of its run. */
  by_hand?: boolean;
  /** What a person wrote there and could not run: the run's source came back in its place. */
  edit?: string;
  /** Why it could not be run. */
  reason?: string;
  /** Of a cell that is left over: a person ran it, as it stands there, in the kernel of its run. */
  ran?: boolean;
  /** A person's edit of a cell whose run is replaced, or that was not approved: no run has it, and it is not run. */
  left?: boolean;
  [key: string]: unknown;
}

/** The mark of a cell of a run; `null`: it is none, or belongs to no run any more. */
export function markOf(model: ICellModel): Mark | null {
  const mark = anyMarkOf(model);
  return mark?.left ? null : mark;
}

/** The mark of a cell that is left over from a run: a person's edit, which Run All passes over. */
export function leftMarkOf(model: ICellModel): Mark | null {
  const mark = anyMarkOf(model);
  return mark?.left ? mark : null;
}

function anyMarkOf(model: ICellModel): Mark | null {
  // most cells of a notebook are none: that is found out without a copy of their metadata
  const mark = LIVE_ID.test(model.id) ? (model.getMetadata('rlm') as Partial<Mark> | undefined) : undefined;
  return mark?.v === 1 && typeof mark.parent === 'string' ? (mark as Mark) : null;
}

/** Whether a cell shows the outputs of other code than stands in it. */
export function isAstray(model: ICellModel, mark: Mark): boolean {
  return mark.base === undefined ? isEdited(model, mark) : mark.base !== model.sharedModel.getSource();
}

/** Whether a person has pasted a copy of a live cell: it has another id, so it is a cell of theirs. */
export function isPasted(model: ICellModel): boolean {
  return pastedMarkOf(model) !== null;
}

/** The mark of such a copy: what it is a copy of. */
export function pastedMarkOf(model: ICellModel): Mark | null {
  const mark = LIVE_ID.test(model.id) ? undefined : (model.getMetadata('rlm') as Partial<Mark> | undefined);
  return mark?.v === 1 && typeof mark.parent === 'string' ? (mark as Mark) : null;
}

/** A live cell's source for a cell of a person's own: what code needs is in the kernel of its run. */
export function copied(model: ICellModel, source: string, trans: TranslationBundle): string {
  const run = markOf(model)?.run_id;
  if (model.type !== 'code' || typeof run !== 'string' || run === '') {
    return source;
  }
  const words = [trans.__('From a run. Its context and sub-calls come into this kernel by'), `%rlm_restore ${run}`];
  return `${words.map(line => `# ${line}\n`).join('')}${source}`;
}

/** The id of a cell that is left over: of the form of a live cell's, which no kernel runs, and of no run's own. */
export function leftId(run: string): string {
  return `rlm-${run}-9${Math.floor(Math.random() * 1e12)}`;
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
    ...(run.facts.base_url ? { base_url: run.facts.base_url } : {}),
    ...facts,
    role: cell.facts.role,
    iteration: cell.facts.iteration,
    status: cell.status,
    ...(cell.execution_count === null ? {} : { count: cell.execution_count }),
    ...(run.facts.number === null ? {} : { here: true as const }),
    cell: cell.id,
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
