/** Lets an extension take over the execution of a cell, however a person executes it: by keys, toolbar or menu. */

import { CodeCell } from '@jupyterlab/cells';
import type { ICellModel } from '@jupyterlab/cells';
import { OutputArea } from '@jupyterlab/outputarea';
import type * as nbformat from '@jupyterlab/nbformat';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';

import { isEdited, markOf } from '../model/marks';
import { LIVE_ID } from '../protocol/messages';

/** Takes a cell that is about to be sent to the notebook's kernel; `null`: it is sent. */
type Take = (cell: CodeCell) => Promise<void> | null;

/** As the kernel knows it. */
const SENT = 'rlm_settings';
/**
 * Stands above the source of a live cell that is sent to the notebook's kernel, which then runs it where it belongs. A
 * kernel without this package knows no such magic, and so runs nothing of it.
 */
const GUARD = '%%rlm_live\n';
/** With the request of a live cell that takes no number of the notebook's kernel. */
const UNCOUNTED = 'rlm_uncounted';
const UNKNOWN = /magic .*%%rlm_live.* not found/;
const takes = new Set<Take>();
/** What goes with each request to execute a cell, in its metadata. */
let sent: Readonly<Record<string, unknown>> = {};
let isInstalled = false;

/** Whether an output says that the kernel has not run a live cell, because it does not know what that is. */
export function isRefused(output: nbformat.IOutput): boolean {
  // IPython writes it as text, others as an error
  return UNKNOWN.test([output.text ?? output.evalue ?? ''].flat().join(''));
}

/**
 * Whether a cell takes no number: after Run All those of the person's own cells are as if no run's were there. After a
 * run in the notebook's own kernel, a cell that somebody has edited becomes theirs when they run it, and has one.
 */
function isUncounted(model: ICellModel): boolean {
  const mark = markOf(model);
  return mark !== null && (mark.here !== true || !isEdited(model, mark));
}

/** As Lab sends a cell, but not counted. */
function sendUncounted(
  kernel: Kernel.IKernelConnection,
  code: string,
  output: OutputArea,
  metadata: JSONObject = {}
): Promise<KernelMessage.IExecuteReplyMsg> {
  const content = { code, stop_on_error: true, store_history: false };
  const future = kernel.requestExecute(content, false, metadata);
  output.future = future;
  return future.done;
}

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
      const told = { ...metadata, [SENT]: sent, ...(isUncounted(cell.model) ? { [UNCOUNTED]: true } : {}) };
      return execute(cell, session, told as typeof metadata);
    };
    const send = OutputArea.execute;
    (OutputArea as { execute: typeof OutputArea.execute }).execute = (code, output, session, metadata) => {
      const isLive = LIVE_ID.test(String(metadata?.cellId ?? ''));
      const source = isLive ? GUARD + code : code;
      const kernel = isLive && metadata?.[UNCOUNTED] ? session.session?.kernel : undefined;
      return kernel ? sendUncounted(kernel, source, output, metadata) : send(source, output, session, metadata);
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
