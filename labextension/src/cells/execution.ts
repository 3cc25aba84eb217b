/** Lets an extension take over the execution of a cell, however a person executes it: by keys, toolbar or menu. */

import { CodeCell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';

/** Takes a cell that is about to be sent to the notebook's kernel; `null`: it is sent. */
type Take = (cell: CodeCell) => Promise<void> | null;

/** As the kernel knows it. */
const SENT = 'rlm_settings';
const takes = new Set<Take>();
/** What goes with each request to execute a cell, in its metadata. */
let sent: Readonly<Record<string, unknown>> = {};
let isInstalled = false;

/** The kernel finds these settings with each cell that it executes. */
export function sendSettings(settings: Record<string, unknown>): void {
  sent = settings;
}

/**
 * Lab has no hook for this: a cell executor can be provided by one extension alone, from 4.3 on, and shortcuts
 * are not what the toolbar and the menu use. All of them end in this one function.
 */
export function takeExecutions(take: Take): IDisposable {
  if (!isInstalled) {
    isInstalled = true;
    const execute = CodeCell.execute;
    (CodeCell as { execute: typeof CodeCell.execute }).execute = (cell, ...rest) => {
      for (const take of takes) {
        const taken = take(cell);
        if (taken) {
          return taken;
        }
      }
      const [session, metadata] = rest;
      return execute(cell, session, { ...metadata, [SENT]: sent } as typeof metadata);
    };
  }
  takes.add(take);
  return {
    get isDisposed() {
      return !takes.has(take);
    },
    dispose: () => void takes.delete(take)
  };
}
