/** The comms between a page and a kernel: they bring a run's messages, and take what people ask for. */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import { UUID } from '@lumino/coreutils';
import type { JSONObject } from '@lumino/coreutils';

import { isBatch, TARGET } from './messages';
import type { Batch, Message } from './messages';

const SUBSHELL_MILLISECONDS = 1500;
/** A message to a run on the control channel, which a busy kernel reads; older kernels pass it over. */
const CONTROL = 'rlm_page';
/** Between two attempts: a server hears the kernel a moment after the page, and loses what it said before. */
const CONTROL_MILLISECONDS = 1500;
/** After these, a kernel that has said nothing is asked by the comm. */
const MOST_ATTEMPTS = 4;

/** Who is told what comes. */
export interface RunListener {
  /** A message of a run. */
  onBatch(batch: Batch, comm: RunComm): void;
  /** Something that is no message of a run, or one of another version. */
  onUnknown(data: unknown): void;
  /** The kernel has closed the connection. */
  onClose(comm: RunComm): void;
}

/** One run's comm. */
export class RunComm {
  /** @param _control sends by the control channel: the cell began before this page, or there are no subshells. */
  constructor(
    private readonly _comm: Kernel.IComm,
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _listener: RunListener,
    private _control: ((message: Message) => void) | null = null,
    /** Whose run this page listens for; one that begins while it is there says so itself. */
    readonly cell: string | null = null
  ) {
    _comm.onMsg = message => {
      this._isHeard = true;
      this.take(message.content.data);
    };
    _comm.onClose = () => _listener.onClose(this);
  }

  /** Whether nothing more will come, and nothing more be heard. */
  get isClosed(): boolean {
    return this._comm.isDisposed || this._kernel.isDisposed;
  }

  /** Hand on what came. */
  take(data: unknown): void {
    if (isBatch(data)) {
      this._listener.onBatch(data, this);
    } else {
      this._listener.onUnknown(data);
    }
  }

  /** Send, once the kernel can hear it while it is busy; a kernel that cannot, hears it later. */
  async send(message: Message): Promise<void> {
    for (let attempt = 0; this._control && attempt < MOST_ATTEMPTS; attempt++) {
      this._control(message);
      if (!this._isHeard) {
        await wait(CONTROL_MILLISECONDS);
      }
      if (this._isHeard) {
        return;
      }
    }
    this._control = null;
    const started = (this._comm as { subshellStarted?: Promise<unknown> }).subshellStarted;
    if (started) {
      await Promise.race([started.catch(() => undefined), wait(SUBSHELL_MILLISECONDS)]);
    }
    // the notebook may have been closed, or its kernel shut down, while this waited
    if (!this.isClosed && this._kernel.status !== 'dead') {
      this._comm.send({ ...message } as unknown as JSONObject);
    }
  }

  /** The kernel has said something. */
  private _isHeard = false;
}

/** Listens to a kernel for runs. */
export class Listener {
  constructor(
    private readonly _kernel: Kernel.IKernelConnection,
    private readonly _listener: RunListener
  ) {
    _kernel.registerCommTarget(TARGET, this._open);
  }

  /** Listen for the run of a cell that began before this page was loaded, and ask for all that it has told. */
  private _listen(cellId: string, id: string): void {
    if (!this._kernel.isDisposed && this._kernel.handleComms && !this._kernel.hasComm(id)) {
      const control = (message: Message): void => this._control(id, message);
      const runComm = new RunComm(this._kernel.createComm(TARGET, id), this._kernel, this._listener, control, cellId);
      void runComm.send({ type: 'resync', known: [] });
    }
  }

  /**
   * Ask a kernel, also a busy one, which runs it has, and listen for those of these cells: they were begun before this
   * page was loaded, or in another one. Every kernel can be asked; a message of ours is sent to none that has no run,
   * as after a restart: it would log an error. One that does not answer, has none.
   */
  find(cells: ReadonlySet<string>): void {
    const asked = new Set<string | undefined>();
    const hear = (_: unknown, { msg }: Kernel.IAnyMessageArgs): void => {
      if (msg.header.msg_type === 'comm_info_reply' && asked.has((msg.parent_header as { msg_id?: string }).msg_id)) {
        this._stopFinding();
        const { comms = {} } = msg.content as { comms?: Record<string, unknown> };
        this._listenTo(Object.keys(comms), cells);
      }
    };
    this._kernel.anyMessage.connect(hear);
    // a server hears the kernel a moment after the page
    const asking = window.setInterval(() => {
      if (asked.size < MOST_ATTEMPTS) {
        asked.add(this._send('comm_info_request', { target_name: TARGET }));
      } else {
        this._stopFinding();
      }
    }, CONTROL_MILLISECONDS);
    this._stopFinding = (): void => {
      window.clearInterval(asking);
      this._kernel.anyMessage.disconnect(hear);
    };
    asked.add(this._send('comm_info_request', { target_name: TARGET }));
  }

  /** Listen for those of a kernel's runs that were begun by these cells. */
  private _listenTo(ids: string[], cells: ReadonlySet<string>): void {
    for (const id of ids) {
      const cell = [...cells].find(cell => id === `${TARGET}-${cell}` || id.startsWith(`${TARGET}-${cell}-`));
      if (cell !== undefined) {
        this._listen(cell, id);
      }
    }
  }

  private _control(comm: string, message: Message): void {
    this._send(CONTROL, { comm_id: comm, data: { ...message } });
  }

  /** Send by the control channel; returns the message's id. */
  private _send(type: string, content: object): string {
    const id = UUID.uuid4();
    if (!this._kernel.isDisposed && this._kernel.status !== 'dead') {
      this._kernel.sendControlMessage({
        channel: 'control',
        header: {
          date: new Date().toISOString(),
          msg_id: id,
          msg_type: type as never,
          session: this._kernel.clientId,
          username: this._kernel.username,
          version: '5.3'
        },
        parent_header: {},
        metadata: {},
        content: content as never,
        buffers: []
      } as KernelMessage.IControlMessage);
    }
    return id;
  }

  dispose(): void {
    this._stopFinding();
    if (!this._kernel.isDisposed) {
      this._kernel.removeCommTarget(TARGET, this._open);
    }
  }

  private readonly _open = (comm: Kernel.IComm, message: KernelMessage.ICommOpenMsg): void => {
    const data: unknown = message.content.data;
    const asked = message.parent_header as { session?: string };
    // another page may have asked: that one shows it
    if (asked.session === this._kernel.clientId) {
      // Lab before 4.4 has no subshells, nor have some kernels: all that are busy read their control channel
      const { supportsSubshells } = this._kernel as { supportsSubshells?: boolean };
      const control = (message: Message): void => this._control(comm.commId, message);
      const runComm = new RunComm(comm, this._kernel, this._listener, supportsSubshells === true ? null : control);
      runComm.take(data);
    }
  };

  private _stopFinding: () => void = () => undefined;
}

function wait(milliseconds: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, milliseconds));
}
