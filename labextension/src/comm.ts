/** The line between a page and a kernel: it brings a run's messages, and takes what people ask for. */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';

import { isBatch, TARGET } from './events';
import type { Ask, Batch } from './events';

const SUBSHELL_MILLISECONDS = 1500;

/** One comm of the kernel's. */
export class Line {
  /** @param onBatch is given each message. */
  constructor(
    private readonly _comm: Kernel.IComm,
    onBatch: (batch: Batch, line: Line) => void
  ) {
    _comm.onMsg = message => {
      const data: unknown = message.content.data;
      if (isBatch(data)) {
        onBatch(data, this);
      }
    };
  }

  /** Send, once the kernel can hear it while it is busy; a kernel that cannot, hears it later. */
  async send(ask: Ask): Promise<void> {
    const started = (this._comm as { subshellStarted?: Promise<unknown> }).subshellStarted;
    if (started) {
      await Promise.race([started.catch(() => undefined), wait(SUBSHELL_MILLISECONDS)]);
    }
    if (!this._comm.isDisposed) {
      this._comm.send({ ...ask } as unknown as JSONObject);
    }
  }
}

/** Listens to a kernel for runs. */
export class Listener {
  constructor(
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _onBatch: (batch: Batch, line: Line) => void
  ) {
    _kernel.registerCommTarget(TARGET, this._open);
  }

  /** Listen for the run of a cell that began before this page was loaded. */
  listen(cellId: string): void {
    const id = `${TARGET}-${cellId}`;
    if (!this._kernel.isDisposed && this._kernel.handleComms && !this._kernel.hasComm(id)) {
      new Line(this._kernel.createComm(TARGET, id), this._onBatch);
    }
  }

  dispose(): void {
    if (!this._kernel.isDisposed) {
      this._kernel.removeCommTarget(TARGET, this._open);
    }
  }

  private readonly _open = (comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): void => {
    const data: unknown = message.content.data;
    const asked = message.parent_header as { session?: string };
    // another page may have asked: that one shows it
    if (asked.session === this._kernel.clientId && isBatch(data)) {
      const line = new Line(comm, this._onBatch);
      this._onBatch(data, line);
      void line.send({ type: 'hello' });
    }
  };
}

function wait(milliseconds: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, milliseconds));
}
