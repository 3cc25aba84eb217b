/** Lets an extension take over the execution of a cell, however a person executes it: by keys, toolbar or menu. */

import { CodeCell } from '@jupyterlab/cells';
import type { IDisposable } from '@lumino/disposable';

/** Takes a cell that is about to be sent to the notebook's kernel; `null`: it is sent. */
type Take = (cell: CodeCell) => Promise<void> | null;

const takes = new Set<Take>();
let isInstalled = false;

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
      return execute(cell, ...rest);
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
