/** What people ask of the runs of one notebook: stop, pause, approve, a note, a limit, an export. */

import { Notification, showErrorMessage } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { Acknowledged } from '../protocol/acknowledged';
import { Asks } from '../protocol/requests';
import type { RunComm } from '../protocol/comm';
import type { Ask, Form, NumberedAsk, Place, Said } from '../protocol/messages';
import type { Show } from './openFile';
import { exportSaved } from './exportSaved';
import { askLimits, limitNames } from '../inline/limits';
import type { RunModel } from '../model/run';

const INTERRUPT_MILLISECONDS = 1500;
/** What is done within this time needs no word of being under way. */
const PATIENCE_MILLISECONDS = 600;
const SHOWN_CHARS = 200;

/** Asks somebody for a line of text; `null`: they cancelled. */
export type AskText = (title: string, label: string, button: string) => Promise<string | null>;

/** What the notebook does for it. */
export interface NotebookAccess {
  /** Interrupt the kernel, where it waits for this run. */
  interrupt(run: RunModel): Promise<void> | undefined;
  /** What a code cell says now; `undefined`: there is none. */
  source(cellId: string): string | undefined;
  /** The notebook's kernel. */
  kernel(): Kernel.IKernelConnection | null | undefined;
  /** Show a file that the kernel has written. */
  show: Show;
}

interface Steered {
  run: RunModel;
  comm: RunComm;
  asks: Asks;
  acknowledged: Acknowledged;
  /** Of what was said, that which this page has shown. */
  shown: Set<number>;
  isOver: boolean;
}

export class Steering {
  constructor(
    private readonly _trans: TranslationBundle,
    private readonly _askText: AskText,
    private readonly _notebook: NotebookAccess,
    private readonly _onAsk: (run: RunModel) => void
  ) {}

  /** A run has begun, or (not `isNew`) was found again. */
  begin(run: RunModel, comm: RunComm, isNew: boolean): void {
    this.end(run);
    const asks = new Asks(message => void comm.send(message));
    this._steered.set(run.run, {
      run,
      comm,
      asks,
      acknowledged: new Acknowledged(this._trans),
      shown: new Set(),
      isOver: false
    });
    if (isNew) {
      asks.greet();
    }
  }

  /** Forget a run. */
  end(run: RunModel): void {
    this._steered.get(run.run)?.asks.drop();
    this._steered.delete(run.run);
  }

  /** Something is new in a run: what the kernel has heard, what came of it, that it is over. */
  hear(run: RunModel): void {
    const steered = this._steered.get(run.run);
    if (!steered) {
      return;
    }
    steered.asks.hear(run.facts);
    steered.acknowledged.hear(run.facts.heard[steered.asks.page] ?? 0);
    for (const said of run.facts.said) {
      if (said.page === steered.asks.page && !steered.shown.has(said.n)) {
        steered.shown.add(said.n);
        steered.acknowledged.refuse(said.n);
        this._finish(`${run.run}-${said.n}`);
        this._tell(said);
      }
    }
    steered.isOver &&= run.isOver; // one that is resumed goes on after the end that is on record
    if (run.isOver && !steered.isOver) {
      steered.isOver = true;
      const isGone = run.facts.outcome === 'cut' || run.facts.outcome === 'closed';
      const lost = steered.asks.drop(ask => !isGone && (ask.type === 'export' || ask.type === 'child'));
      lost.forEach(({ n }) => this._finish(`${run.run}-${n}`));
      this._lost(lost);
    }
  }

  /** Tell a run's kernel what a person wants; returns its number, where the kernel may hear it. */
  ask(run: RunModel, ask: Ask): number | undefined {
    const steered = this._steered.get(run.run);
    if (!steered || (run.isOver && ask.type !== 'export' && ask.type !== 'child')) {
      return undefined;
    }
    if (steered.comm.isClosed) {
      Notification.warning(this._trans.__('The kernel that this run belongs to is gone.'));
      return undefined;
    }
    const n = steered.asks.ask(ask);
    steered.acknowledged.ask(n, ask);
    this._onAsk(run);
    return n;
  }

  /** What came of what was asked last, in a few words. */
  acknowledge(run: RunModel): string {
    return this._steered.get(run.run)?.acknowledged.words(run.facts, limitNames(this._trans)) ?? '';
  }

  /** Stop a run: by the comm, and by an interrupt where the kernel does not hear it. */
  stop(run: RunModel): void {
    this.ask(run, { type: 'stop' });
    window.setTimeout(() => {
      const unheard = this._steered.get(run.run)?.asks.unheard ?? [];
      if (!run.isOver && unheard.some(ask => ask.type === 'stop')) {
        this._notebook.interrupt(run)?.catch((error: Error) => {
          void showErrorMessage(this._trans.__('The run could not be stopped'), error);
        });
      }
    }, INTERRUPT_MILLISECONDS);
  }

  /** Let the cell that waits run, as it stands in the notebook now; or have the call made (`all`: further ones too). */
  approve(run: RunModel, all = false): void {
    const cell = run.proposed;
    const { call } = run.facts;
    const source = cell && this._notebook.source(cell.id);
    if (call) {
      this.ask(run, { type: 'approve', call: call.id, all });
    } else if (cell && source !== undefined) {
      this.ask(run, { type: 'approve', cell: cell.id, ...(source === cell.source ? {} : { edited: source }) });
    }
  }

  async refuse(run: RunModel): Promise<void> {
    const cell = run.proposed;
    const { call } = run.facts;
    if (!cell && !call) {
      return;
    }
    const asked = this._trans.__('Message to the model, if you like: why, or what to do instead');
    const title = call ? this._trans.__('Refuse the call') : this._trans.__('Refuse the cell');
    const note = await this._askText(title, asked, this._trans.__('Refuse'));
    if (note !== null && call) {
      this.ask(run, { type: 'refuse', call: call.id, note });
    } else if (note !== null && cell) {
      this.ask(run, { type: 'refuse', cell: cell.id, note });
    }
  }

  /** Take the last cell back; the one that waits is not run either. */
  async undo(run: RunModel): Promise<void> {
    const cell = run.proposed;
    if (!cell?.facts.undoes) {
      return;
    }
    const asked = this._trans.__('Message to the model, if you like: why, or what to do instead');
    const note = await this._askText(this._trans.__('Undo the last cell'), asked, this._trans.__('Undo'));
    if (note !== null) {
      this.ask(run, { type: 'undo', cell: cell.id, note });
    }
  }

  async note(run: RunModel): Promise<void> {
    const asked = this._trans.__('The model reads it with the next outputs');
    const text = await this._askText(this._trans.__('Message to the model'), asked, this._trans.__('Send'));
    if (text?.trim()) {
      if (run.isOver) {
        this._lost([{ type: 'note', text, n: 0 }]);
      }
      this.ask(run, { type: 'note', text });
    }
  }

  /** Set the run's limits anew. */
  async limits(run: RunModel): Promise<void> {
    for (const [name, value] of Object.entries(await askLimits(run, this._trans))) {
      this.ask(run, { type: 'limit', name, value });
    }
  }

  /** Have the run written as one file that can be sent to somebody. */
  export(run: RunModel, form: Form): void {
    if (run.isSaved) {
      void this._exportSaved(run, form);
      return;
    }
    const n = this.ask(run, { type: 'export', form });
    if (n !== undefined) {
      this._begin(`${run.run}-${n}`);
    }
  }

  /** Have the kernel of a run that goes on kept as it is after an iteration: the branch may begin later on. */
  branch(run: RunModel, at: number): void {
    this.ask(run, { type: 'branch', at });
  }

  dispose(): void {
    for (const { asks } of this._steered.values()) {
      asks.drop();
    }
    [...this._writing.keys()].forEach(key => this._finish(key));
    this._steered.clear();
  }

  private _tell(said: Said): void {
    const trans = this._trans;
    switch (said.what) {
      case 'refused':
        Notification.warning(trans.__('Not done: %1', said.text), { autoClose: false });
        return;
      case 'unread':
        Notification.warning(
          trans.__('The run was over before the model read your message: %1', shortened(said.text)),
          { autoClose: false }
        );
        return;
      case 'branch':
        Notification.info(said.text, { autoClose: 8000 });
        return;
      case 'exported':
        if (said.file) {
          this._exported(said.file, said.text);
        }
    }
  }

  /** What is written takes a while the first time, and longer for long runs: say that it is under way. */
  private _begin(key: string): void {
    const timer = window.setTimeout(() => {
      const id = Notification.emit(this._trans.__('The run is being written…'), 'in-progress', { autoClose: false });
      this._writing.set(key, () => Notification.dismiss(id));
    }, PATIENCE_MILLISECONDS);
    this._writing.set(key, () => window.clearTimeout(timer));
  }

  private _finish(key: string): void {
    this._writing.get(key)?.();
    this._writing.delete(key);
  }

  /** A run that was only found in the notebook has no comm: the notebook's kernel is asked. */
  private async _exportSaved(run: RunModel, form: Form): Promise<void> {
    const key = `${run.run}-${form}`;
    this._finish(key);
    this._begin(key);
    const { what, text, file } = await exportSaved(this._notebook.kernel(), run.facts.run_id, form, this._trans);
    this._finish(key);
    if (what === 'exported' && file) {
      this._exported(file, text);
    } else {
      Notification.warning(this._trans.__('Not done: %1', text), { autoClose: false });
    }
  }

  private _exported(place: Place, text: string): void {
    // the folder above it is the reader's own, and a notice has no room for it
    const name = place.beside === null || place.beside.startsWith('../') ? place.path : place.beside;
    const written = this._trans.__('Written to %1', name);
    Notification.success(`${written}\n${text}`, { autoClose: 8000 });
    void this._notebook.show(place);
  }

  /** Nothing that a person said is lost without a word. */
  private _lost(unheard: NumberedAsk[]): void {
    for (const ask of unheard) {
      if (ask.type === 'note' || (ask.type === 'refuse' && ask.note.trim())) {
        const text = shortened(ask.type === 'note' ? ask.text : ask.note);
        const words = this._trans.__('The run was over before the model read your message: %1', text);
        Notification.warning(words, { autoClose: false });
      } else if (ask.type === 'export') {
        Notification.warning(this._trans.__('The run was not exported: its kernel is gone.'), { autoClose: false });
      }
    }
  }

  private readonly _steered = new Map<string, Steered>();
  /** Of the exports under way, what takes their notice away. */
  private readonly _writing = new Map<string, () => void>();
}

function shortened(text: string): string {
  return text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text;
}
