/** Owns what belongs to one notebook: its line to the kernel, its runs, their cells and bars. */

import { Notification, showErrorMessage } from '@jupyterlab/apputils';
import { CodeCell } from '@jupyterlab/cells';
import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';
import { PanelLayout } from '@lumino/widgets';

import { RunBar } from './bar';
import { CellWriter } from './cells';
import { Listener } from './comm';
import type { Line } from './comm';
import type { Ask, Batch } from './events';
import { isEdited, markOf } from './marks';
import type { Mark } from './marks';
import { isDone, RunModel } from './model';
import type { Change } from './model';
import { own, owned } from './owned';

const RESYNC_MILLISECONDS = 1000;
const INTERRUPT_MILLISECONDS = 1500;
const REPEAT_MILLISECONDS = 1000;
const REPEATS = 20;

/** Asks somebody for a line of text; `null`: they thought better of it. */
export type AskText = (title: string, label: string) => Promise<string | null>;

export class LiveNotebook {
  constructor(
    readonly panel: NotebookPanel,
    private readonly _trans: TranslationBundle,
    private readonly _askText: AskText,
    private readonly _isOn: () => boolean
  ) {
    this._writer = new CellWriter(panel);
    panel.sessionContext.kernelChanged.connect(this._attach, this);
    panel.sessionContext.statusChanged.connect(this._look, this);
    panel.content.activeCellChanged.connect(this._leave, this);
    NotebookActions.executionScheduled.connect(this._keep, this);
    NotebookActions.executed.connect(this._restore, this);
    panel.disposed.connect(this.dispose, this);
    void panel.context.ready.then(() => {
      this._decorate();
      panel.content.model?.cells.changed.connect(this._decorateSoon, this);
      this._attach();
    });
  }

  /** Something is different in one of the runs. */
  get changed(): ISignal<this, RunModel> {
    return this._changed;
  }

  /** The runs that this page has seen, the newest last. */
  get runs(): RunModel[] {
    return [...this._runs.values()].map(({ model }) => model);
  }

  /** The run that a person means: that of the active cell, else the newest that is under way, else the newest. */
  get meant(): RunModel | undefined {
    const active = this.panel.content.activeCell?.model;
    const mark = active ? markOf(active) : null;
    const newest = this.runs.reverse();
    return (
      newest.find(run => run.run === mark?.run || run.parent === active?.id) ??
      newest.find(run => !run.isOver) ??
      newest[0]
    );
  }

  /** The cell whose live cells are meant, also when its run was not seen by this page. */
  get meantParent(): string | undefined {
    const active = this.panel.content.activeCell?.model;
    const mark = active ? markOf(active) : null;
    const parents = this._writer.marked().map(item => item.mark.parent);
    return mark?.parent ?? parents.find(parent => parent === active?.id) ?? this.meant?.parent ?? parents[0];
  }

  /** Tell a run's kernel what a person wants. */
  ask(run: RunModel, ask: Ask): void {
    const seen = this._runs.get(run.run);
    if (seen && (!run.isOver || ask.type === 'resync')) {
      void seen.line.send(ask);
    }
  }

  /** Stop a run: by the line, and by an interrupt where the kernel does not hear it. */
  stop(run: RunModel): void {
    this.ask(run, { type: 'stop' });
    window.setTimeout(() => {
      if (!run.isOver && this._isWaiting(run)) {
        void this.panel.sessionContext.session?.kernel?.interrupt().catch((error: Error) => {
          void showErrorMessage(this._trans.__('The run could not be stopped'), error);
        });
      }
    }, INTERRUPT_MILLISECONDS);
  }

  /** Let the cell that waits run, as it stands in the notebook now. */
  approve(run: RunModel): void {
    const cell = run.proposed;
    if (cell) {
      const source = this._writer.widget(cell.id)?.model.sharedModel.getSource() ?? cell.source;
      const edited = source === cell.source ? {} : { edited: source };
      this._decide(run, { type: 'approve', cell: cell.id, ...edited });
    }
  }

  async refuse(run: RunModel): Promise<void> {
    const cell = run.proposed;
    if (!cell) {
      return;
    }
    const note = await this._askText(this._trans.__('Refuse the cell'), this._trans.__('What the model is told'));
    if (note !== null) {
      this._decide(run, { type: 'refuse', cell: cell.id, note });
    }
  }

  /** Say it again until the kernel has heard it: a kernel that is busy may hear a message late. */
  private _decide(run: RunModel, ask: Ask & { cell: string }, repeats = REPEATS): void {
    this.ask(run, ask);
    window.setTimeout(() => {
      if (repeats > 0 && run.proposed?.id === ask.cell) {
        this._decide(run, ask, repeats - 1);
      }
    }, REPEAT_MILLISECONDS);
  }

  async note(run: RunModel): Promise<void> {
    const text = await this._askText(this._trans.__('A note to the model'), this._trans.__('What it is told'));
    if (text?.trim()) {
      this.ask(run, { type: 'note', text });
    }
  }

  /** Remove the live cells of a cell, as one step that can be undone. */
  remove(parent: string): void {
    this._writer.remove(parent);
    for (const [id, { model, bar }] of this._runs) {
      if (model.parent === parent && model.isOver) {
        bar?.dispose();
        this._runs.delete(id);
        this._changed.emit(model);
      }
    }
  }

  /** Hide the live cells of a cell, or show them again. */
  fold(parent: string): void {
    const cells = this._writer.marked().filter(({ mark }) => mark.parent === parent);
    const hide = cells.some(({ model }) => !this._writer.widget(model.id)?.isHidden);
    if (hide) {
      this._folded.add(parent);
    } else {
      this._folded.delete(parent);
    }
    for (const { model } of cells) {
      this._writer.widget(model.id)?.setHidden(hide);
    }
    this.panel.content.update();
  }

  /** Go to a cell. */
  async jump(cellId: string): Promise<void> {
    const place = this.panel.content.widgets.findIndex(widget => widget.model.id === cellId);
    if (place >= 0) {
      const mark = markOf(this.panel.content.widgets[place].model);
      if (mark && this._folded.has(mark.parent)) {
        this.fold(mark.parent);
      }
      this.panel.content.activeCellIndex = place;
      await this.panel.content.scrollToItem(place, 'smart');
    }
  }

  dispose(): void {
    this._listener?.dispose();
    NotebookActions.executionScheduled.disconnect(this._keep, this);
    NotebookActions.executed.disconnect(this._restore, this);
    Signal.clearData(this);
  }

  private _attach(): void {
    this._listener?.dispose();
    this._listener = null;
    this._cut();
    const kernel = this.panel.sessionContext.session?.kernel;
    if (!kernel) {
      return;
    }
    this._listener = new Listener(kernel, (batch, line) => this._hear(batch, line));
    const cells = new Set(this.panel.content.model?.sharedModel.cells.map(cell => cell.getId()));
    for (const [cell] of owned()) {
      if (cells.has(cell)) {
        this._listener.listen(cell);
      }
    }
  }

  private _look(): void {
    const status = this.panel.sessionContext.session?.kernel?.status;
    if (status === 'restarting' || status === 'autorestarting' || status === 'dead' || status === 'terminating') {
      this._cut();
    }
  }

  private _cut(): void {
    for (const { model } of this._runs.values()) {
      this._follow(model, model.cut());
    }
  }

  private _hear(batch: Batch, line: Line): void {
    if (!this._isOn()) {
      return;
    }
    let seen = this._runs.get(batch.run);
    if (!seen) {
      const parent = batch.parent ?? owned().find(([, run]) => run === batch.run)?.[0];
      if (parent === undefined) {
        return; // another page has it
      }
      seen = this._begin(batch, parent, line);
    }
    const changes = seen.model.fold(batch);
    this._follow(seen.model, changes);
    if (seen.model.missed) {
      this._resync(seen.model);
    }
  }

  private _begin(batch: Batch, parent: string, line: Line): { model: RunModel; line: Line; bar: RunBar | null } {
    const model = new RunModel(batch.run, parent, batch.execution ?? '');
    // two runs of one execution stand side by side; those of an earlier one are replaced
    const beside = this.runs.filter(run => run.parent === parent && run.execution && run.execution === model.execution);
    if (batch.parent !== undefined) {
      this._writer.remove(parent, new Set(beside.map(run => run.run)));
      for (const [id, other] of this._runs) {
        if (other.model.parent === parent && !beside.includes(other.model) && other.model.isOver) {
          other.bar?.dispose();
          this._runs.delete(id);
        }
      }
      own(parent, batch.run);
    }
    const seen = { model, line, bar: this._bar(model) };
    this._runs.set(model.run, seen);
    return seen;
  }

  private _bar(model: RunModel): RunBar | null {
    const layout = this._writer.widget(model.parent)?.layout;
    if (!(layout instanceof PanelLayout)) {
      return null;
    }
    const bar = new RunBar(
      model,
      {
        stop: () => this.stop(model),
        pause: () => this.ask(model, { type: 'pause' }),
        resume: () => this.ask(model, { type: 'resume' }),
        approve: () => this.approve(model),
        refuse: () => void this.refuse(model),
        note: () => void this.note(model),
        fold: () => this.fold(model.parent),
        remove: () => this.remove(model.parent)
      },
      this._trans
    );
    layout.addWidget(bar);
    return bar;
  }

  private _follow(run: RunModel, changes: Change[]): void {
    if (!changes.length) {
      return;
    }
    for (const change of changes) {
      this._writer.apply(run, change);
      if (change.kind === 'placed') {
        const widget = this._writer.widget(change.cell.id);
        if (widget) {
          this._dress(widget);
          widget.setHidden(this._folded.has(run.parent));
        }
      }
    }
    this._runs.get(run.run)?.bar?.refresh();
    this._changed.emit(run);
  }

  /** Ask for everything, now and then, while something is missing. */
  private _resync(run: RunModel): void {
    if (this._asking.has(run.run)) {
      return;
    }
    this._asking.add(run.run);
    this.ask(run, { type: 'resync' });
    window.setTimeout(() => {
      this._asking.delete(run.run);
      if (run.missed && this._runs.has(run.run) && this.panel.sessionContext.session?.kernel?.status !== 'unknown') {
        this._resync(run);
      }
    }, RESYNC_MILLISECONDS);
  }

  /** Whether the cell that asked still waits for its run: then an interrupt reaches it. */
  private _isWaiting(run: RunModel): boolean {
    const widget = this._writer.widget(run.parent);
    return widget instanceof CodeCell && widget.model.executionCount === null;
  }

  private _decorate(): void {
    for (const widget of this.panel.content.widgets) {
      this._dress(widget);
    }
  }

  private _decorateSoon(_: unknown, change: { type: string }): void {
    if (change.type !== 'remove' && !this._due) {
      this._due = true;
      window.setTimeout(() => {
        this._due = false;
        if (!this.panel.isDisposed) {
          this._decorate();
        }
      });
    }
  }

  private _dress(widget: Cell): void {
    this._writer.decorate(widget, mark => this._label(mark));
  }

  private _label(mark: Mark): string {
    const trans = this._trans;
    const names: Record<string, string> = {
      prose: trans.__('The model’s words'),
      code: trans.__('The model’s code'),
      subcalls: trans.__('Sub-calls'),
      notice: trans.__('Notice'),
      answer: trans.__('Answer')
    };
    return trans.__('%1, iteration %2', names[mark.role] ?? mark.role, mark.iteration);
  }

  /** A live cell that was edited becomes a cell like any other once it is left. */
  private _leave(_: Notebook, active: Cell | null): void {
    const left = this._active;
    this._active = active;
    const mark = left && !left.isDisposed && left !== active ? markOf(left.model) : null;
    if (left && mark && isDone(mark.status as never) && isEdited(left.model, mark)) {
      const { model } = left;
      window.setTimeout(() => this._writer.giveAway(model));
    }
  }

  /** Lab is about to clear the outputs of a cell that the kernel will not run: keep them. */
  private _keep(_: unknown, args: { notebook: Notebook; cell: Cell }): void {
    const { model } = args.cell;
    const mark = args.notebook === this.panel.content ? markOf(model) : null;
    if (mark && model.type === 'code' && !isEdited(model, mark)) {
      const code = model as ICodeCellModel;
      this._kept.set(model, { outputs: code.outputs.toJSON(), count: code.executionCount });
    }
  }

  private _restore(_: unknown, args: { notebook: Notebook; cell: Cell }): void {
    const { model } = args.cell;
    const kept = this._kept.get(model);
    if (kept) {
      this._kept.delete(model);
      (model as ICodeCellModel).outputs.fromJSON(kept.outputs);
      (model as ICodeCellModel).executionCount = kept.count;
      if (!this._told) {
        this._told = true;
        Notification.info(this._trans.__('The model’s cells belong to its own kernel: they were not run in yours.'), {
          autoClose: 5000
        });
      }
    }
  }

  private readonly _writer: CellWriter;
  private readonly _runs = new Map<string, { model: RunModel; line: Line; bar: RunBar | null }>();
  private readonly _asking = new Set<string>();
  private readonly _folded = new Set<string>();
  private readonly _kept = new Map<ICellModel, { outputs: nbformat.IOutput[]; count: nbformat.ExecutionCount }>();
  private readonly _changed = new Signal<this, RunModel>(this);
  private _listener: Listener | null = null;
  private _active: Cell | null = null;
  private _told = false;
  private _due = false;
}
