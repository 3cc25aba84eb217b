/** What failed in a run. */

import type { LiveCell } from '../protocol/messages';
import type { RunModel } from './run';

const FAILED = new Set(['error', 'died', 'interrupted']);
/** In a run that somebody stopped. */
const FAILED_BEFORE = new Set(['error', 'died']);
/** Outcomes that are failures of the run itself, and no limit that it was given. */
const FAILURES = new Set(['failed', 'errors', 'kernel_died']);

/** Whether the run itself failed, whatever its cells did. */
export function hasFailed({ facts }: RunModel): boolean {
  return FAILURES.has(facts.outcome ?? '');
}

/** How many of these cells of a run failed, sub-calls among them; the one in which a person stopped it did not. */
export function errorsOf(cells: LiveCell[], { facts }: RunModel): number {
  const calls = cells.flatMap(cell => cell.facts.calls ?? []).filter(call => call.failed);
  const failed = facts.outcome === 'cancelled' ? FAILED_BEFORE : FAILED;
  return calls.length + cells.filter(({ status }) => failed.has(status)).length;
}

/** All that failed in a run, itself counted where it did. */
export function failuresOf(run: RunModel): number {
  return errorsOf(run.own, run) + (hasFailed(run) ? 1 : 0);
}

/** The first cell of a run in which something failed. */
export function firstFailed(run: RunModel): LiveCell | undefined {
  return run.own.find(cell => errorsOf([cell], run) > 0);
}
