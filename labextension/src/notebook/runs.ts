/** The runs of one notebook, heard from its kernel: what all of the notebook's views have in common. */

import { Notification } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { Listener } from '../protocol/comm';
import type { RunComm } from '../protocol/comm';
import type { Batch } from '../protocol/messages';
import { RunModel } from '../model/run';
import type { Change } from '../model/run';
import type { View } from './runsView';
import { own, owned } from '../model/ownership';
import { Steering } from '../actions/steering';
import type { AskText, NotebookAccess } from '../actions/steering';

const RESYNC_MILLISECONDS = 1000;
/** How long a run that is found again waits, at most, for the steps that this page has not heard. */
const CATCH_UP_MILLISECONDS = 8000;

interface Heard {
  model: RunModel;
  comm: RunComm;
}

export class NotebookRuns<V extends View> {
  constructor(
    private readonly _context: NotebookPanel['context'],
    private readonly _trans: TranslationBundle,
    askText: AskText,
    show: NotebookAccess['show'],
    private readonly _isOn: () => boolean
  ) {
    const access: NotebookAccess = {
      // it reaches the run as long as the cell that asked waits for it
      interrupt: run => (this._first?.isWaiting(run) ? this._kernel?.interrupt() : undefined),
      source: cellId => this._first?.source(cellId),
      kernel: () => this._kernel,
      show
    };
    this.steering = new Steering(_trans, askText, access, run => this._views.forEach(view => view.draw(run, [])));
    _context.sessionContext.kernelChanged.connect(this._attach, this);
    _context.sessionContext.statusChanged.connect(this._look, this);
    NotebookActions.executed.connect(this._check, this);
    void _context.ready.then(() => this._attach());
  }

  /** What people ask of the runs. */
  readonly steering: Steering;

  /** The views; the first of them writes the cells, and when it is closed the next one does. */
  get views(): readonly V[] {
    return this._views;
  }

  /** The runs that this page has seen, the newest last. */
  get all(): RunModel[] {
    return [...this._runs.values()].map(({ model }) => model);
  }

  get(run: string): RunModel | undefined {
    return this._runs.get(run)?.model;
  }

  add(view: V): void {
    this._views.push(view);
  }

  /** Take a view out; returns the one that writes from now on, `undefined` with the last. */
  remove(view: V): V | undefined {
    this._views = this._views.filter(other => other !== view);
    if (!this._first) {
      this._listener?.dispose();
      this._listener = null;
      this.steering.dispose();
      Signal.clearData(this);
      this._isGone = true;
    }
    return this._first;
  }

  /** A run that is over, and whose cells are gone, leaves all views. */
  forget(run: RunModel): void {
    this._runs.delete(run.run);
    this._held.delete(run);
    this.steering.end(run);
    this._views.forEach(view => view.part(run));
  }

  private get _first(): V | undefined {
    return this._views[0];
  }

  private get _kernel(): Kernel.IKernelConnection | null | undefined {
    return this._context.sessionContext.session?.kernel;
  }

  private _attach(): void {
    this._listener?.dispose();
    this._listener = null;
    this._cut();
    const kernel = this._kernel;
    if (!kernel || this._isGone) {
      return;
    }
    this._listener = new Listener(kernel, {
      onBatch: (batch, comm) => this._hear(batch, comm),
      onUnknown: data => this._wonder(data),
      onClose: comm => this._close(comm)
    });
    const cells = this._context.model.sharedModel.cells.map(cell => cell.getId());
    // whoever shares a document has the cells of others from the pages that wrote them
    const isShared = (this._context.model as { collaborative?: boolean }).collaborative === true;
    const mine = new Set(owned().map(([cell]) => cell));
    this._listener.find(new Set(isShared ? cells.filter(cell => mine.has(cell)) : cells));
  }

  private _look(): void {
    const status = this._kernel?.status;
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead' || status === 'terminating') {
      this._cut();
    }
  }

  private _cut(): void {
    this.all.forEach(model => this._follow(model, model.cut()));
  }

  private _hear(batch: Batch, comm: RunComm): void {
    if (!this._isOn()) {
      return;
    }
    let heard = this._runs.get(batch.run);
    if (!heard) {
      const parent = batch.parent ?? owned().find(([, run]) => run === batch.run)?.[0] ?? comm.cell;
      if (parent === null) {
        return; // another page has it
      }
      heard = this._begin(batch, parent, comm);
    }
    const wasOver = heard.model.isOver;
    try {
      const changes = heard.model.fold(batch);
      // who is asked about a cell sees it, whatever is missing above it
      const isHeld = heard.model.missed && heard.model.proposed === undefined;
      this._follow(heard.model, isHeld ? changes : [...changes, ...this._takeHeld(heard.model)]);
    } catch (reason) {
      // whatever is wrong with it: the next cell that is done, or a snapshot, sets it right
      heard.model.missed = true;
      this._wonder(batch, reason);
    }
    if (heard.model.missed) {
      this._resync(heard.model);
    }
    if (batch.shown) {
      this._first?.finish(heard.model, batch.shown);
    }
    if (heard.model.isOver && !wasOver) {
      void comm.send({ type: 'over' });
      if (this._first?.isUnheard(heard.model)) {
        void comm.send({ type: 'shown' });
      }
      if (!heard.model.cells.length && !heard.model.facts.run_id) {
        this.forget(heard.model); // it never began, and the error of its cell says why
      }
    }
  }

  private _begin(batch: Batch, parent: string, comm: RunComm): Heard {
    const model = new RunModel(batch.run, parent, batch.execution ?? '');
    if (batch.parent !== undefined) {
      // two runs of one execution stand side by side; those of an earlier one are replaced
      const earlier = this.all.filter(run => run.parent === parent);
      const beside = earlier.filter(run => run.execution && run.execution === model.execution);
      this._first?.clear(parent, new Set(beside.map(run => run.run)));
      earlier.filter(run => run.isOver && !beside.includes(run)).forEach(run => this.forget(run));
      own(parent, batch.run);
    }
    const heard = { model, comm };
    this._runs.set(model.run, heard);
    if (batch.parent === undefined) {
      own(parent, batch.run);
      // the notebook may have been saved with the cells of an earlier run, which this one has replaced
      const known = this.all.filter(run => run.parent === parent).map(({ run }) => run);
      this._first?.supersede(model, new Set(known));
      this._putInOrder();
      // the last steps alone would look like all there is
      this._held.set(model, []);
      window.setTimeout(() => this._follow(model, this._takeHeld(model)), CATCH_UP_MILLISECONDS);
    }
    this._views.forEach(view => view.meet(model));
    this.steering.begin(model, comm, batch.parent !== undefined);
    return heard;
  }

  /** Runs that are found again answer in any order. */
  private _putInOrder(): void {
    const ages = owned().map(([, run]) => run);
    const sorted = [...this._runs].sort(([one], [other]) => ages.indexOf(one) - ages.indexOf(other));
    this._runs.clear();
    sorted.forEach(([run, heard]) => this._runs.set(run, heard));
  }

  private _follow(run: RunModel, changes: Change[]): void {
    if (!changes.length) {
      return;
    }
    const held = this._held.get(run);
    if (held) {
      held.push(...changes);
    } else {
      this._first?.write(run, changes);
    }
    this.steering.hear(run);
    // the cells are shown as they are written
    const others = changes.filter(change => change.kind === 'child');
    this._views.forEach(view => view.draw(run, others));
  }

  /** What was not written while steps of the run were missing, from now on it is. */
  private _takeHeld(run: RunModel): Change[] {
    const held = this._held.get(run) ?? [];
    this._held.delete(run);
    return held;
  }

  /** Something came that this page does not understand: say so once. */
  private _wonder(data: unknown, reason?: unknown): void {
    console.warn('rlm_jupyter: a message of the kernel was not understood', data, reason);
    if (!this._wondered && this._isOn()) {
      this._wondered = true;
      Notification.warning(
        this._trans.__(
          'Part of the run cannot be shown here. The run continues, and is saved in full. ' +
            'Are the extension of this page and rlm_jupyter in the kernel of one version?'
        ),
        { autoClose: false }
      );
    }
  }

  /** The kernel has closed the connection: when a run is over, or because it can't go on telling. */
  private _close(comm: RunComm): void {
    for (const { model, comm: its } of this._runs.values()) {
      if (its === comm && !model.isOver) {
        this._follow(model, model.cut('closed'));
      }
    }
  }

  /** Ask for everything, now and then, while something is missing. */
  private _resync(run: RunModel): void {
    if (this._asking.has(run.run)) {
      return;
    }
    this._asking.add(run.run);
    void this._runs.get(run.run)?.comm.send({ type: 'resync', known: run.known });
    window.setTimeout(() => {
      this._asking.delete(run.run);
      if (run.missed && this._runs.has(run.run) && this._kernel?.status !== 'unknown') {
        this._resync(run);
      }
    }, RESYNC_MILLISECONDS);
  }

  /** A cell of this notebook has ended: so has a flood of its outputs, in which the server drops messages. */
  private _check(_: unknown, args: { notebook: Notebook }): void {
    if (!this._views.some(view => view.panel.content === args.notebook)) {
      return;
    }
    for (const { model, comm } of this._runs.values()) {
      if (!model.isOver) {
        void comm.send({ type: 'check' });
      } else if (model.missed) {
        this._resync(model);
      }
    }
  }

  private readonly _runs = new Map<string, Heard>();
  /** What is not written yet of runs that were found again, and of which steps are missing. */
  private readonly _held = new Map<RunModel, Change[]>();
  /** Runs that were asked for all they have. */
  private readonly _asking = new Set<string>();
  private _views: V[] = [];
  private _listener: Listener | null = null;
  private _wondered = false;
  private _isGone = false;
}
