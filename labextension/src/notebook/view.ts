/**
 * One view of a notebook: the cells of its runs, their bars, and what people do with them.
 *
 * Long because all that commands, panels and runs ask of a view meets here; what is done about it stands elsewhere.
 */
/* eslint max-lines: off */

import { CodeCell, MarkdownCell } from '@jupyterlab/cells';
import type { ICellModel } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

import { goOn } from '../cells/advance';
import { CellWriter } from '../cells/writer';
import { Rows } from '../inline/children';
import { CellLabels } from '../inline/cellLabels';
import { keepStyles } from '../performance/editors';
import { Edits } from '../cells/edits';
import { Executed } from '../cells/userCells';
import { takeBackCut } from '../cells/cut';
import { notebookOf, savedNotebook } from '../actions/openFile';
import type { Show } from '../actions/openFile';
import { finish, isUnheard, showUnderWay } from '../cells/askingCell';
import { Folds } from '../cells/folding';
import type { Shown } from '../protocol/messages';
import { copied, markOf } from '../model/marks';
import type { Mark } from '../model/marks';
import type { Change, RunModel } from '../model/run';
import { firstFailed } from '../model/failures';
import { LongCode } from '../inline/longCode';
import { Bars } from './bars';
import type { BarActions } from './bars';
import { branched, canBranch } from './branch';
import { meantParent, meantRun } from './meant';
import { NotebookRuns } from './runs';
import type { View } from './runsView';
import { SavedRuns } from '../model/saved';
import type { AskText, Steering } from '../actions/steering';

/** By the notebooks that are open; the views of one have one context. */
const opened = new WeakMap<NotebookPanel['context'], NotebookRuns<LiveNotebook>>();

export interface LiveCellOfRun {
  model: ICellModel;
  mark: Mark;
}

export class LiveNotebook implements View {
  constructor(
    readonly panel: NotebookPanel,
    private readonly _trans: TranslationBundle,
    askText: AskText,
    isOn: () => boolean,
    readonly show: Show
  ) {
    const { context } = panel;
    this._runs = opened.get(context) ?? new NotebookRuns(context, _trans, askText, show, isOn);
    this._writer = new CellWriter(panel, (run, changes) => this._runs.views.forEach(view => view.draw(run, changes)));
    this._folds = new Folds(panel, this._writer);
    this._saved = new SavedRuns(
      panel,
      () => new Set(this.runs.map(({ run }) => run)),
      (gone, come) => this._lookBack(gone, come)
    );
    const rows = new Rows(
      _trans,
      id => this._runs.get(id),
      (run, child, open) => this.steering.ask(run, { type: 'child', child, open })
    );
    this._edits = new Edits(panel, this._writer, mark => this._recordOf(mark), _trans);
    const isUnderWay = (run: string): boolean => this._runs.get(run)?.isOver === false;
    this._labels = new CellLabels(panel, this._writer, rows, this._edits, new LongCode(_trans), isUnderWay, _trans);
    this._writer.left.connect((_, model) => this._runs.views.forEach(view => view._relabel(model)));
    const asks = {
      approval: (id: string) => this._approval(id),
      isBusy: (run: string) => this._isBusy(run),
      number: (id: string) => this.runs.filter(run => run.parent === id).pop()?.facts.number ?? null
    };
    this._executed = new Executed(panel, this._writer, this._edits, asks, _trans);
    this._bars = new Bars(this._actions(), id => this._writer.widget(id), this._trans);
    this._runs.add(this);
    opened.set(context, this._runs);
    panel.disposed.connect(this.dispose, this);
    void context.ready.then(() => {
      // the first editor brings the style sheet of all
      void panel.content.widgets[0]?.ready.then(keepStyles);
      this._folds.restore();
      this._labels.start();
      this.runs.forEach(run => this.draw(run, []));
      this._saved.start();
      takeBackCut(panel);
      panel.content.model?.cells.changed.connect(this._soon, this);
    });
  }

  /** What people ask of the runs. */
  get steering(): Steering {
    return this._runs.steering;
  }

  /** Something is different in one of the runs. */
  get changed(): ISignal<this, RunModel> {
    return this._changed;
  }

  /** The runs that this page has seen, the newest last. */
  get runs(): RunModel[] {
    return this._runs.all;
  }

  /** Those that it has not, but whose cells stand in the notebook. */
  get saved(): readonly RunModel[] {
    return this._saved.runs;
  }

  /** The run that a person means: that of the active cell, else the newest that is under way, else the newest. */
  get meant(): RunModel | undefined {
    return meantRun(this.runs, this.panel.content.activeCell?.model);
  }

  /** The same, also where it is known from the notebook alone: there is something to read and to send. */
  get meantOrSaved(): RunModel | undefined {
    return meantRun([...this.saved, ...this.runs], this.panel.content.activeCell?.model);
  }

  /** The cell whose live cells are meant, also when its run was not seen by this page. */
  get meantParent(): string | undefined {
    const parents = this._writer.marked().map(item => item.mark.parent);
    return meantParent(parents, this.panel.content.activeCell?.model) ?? this.meant?.parent ?? parents[0];
  }

  /** The live cell with this node, or the active one; `null`: it is no live cell. */
  liveCell(node?: HTMLElement): LiveCellOfRun | null {
    const { widgets, activeCell } = this.panel.content;
    const model = (node ? widgets.find(widget => widget.node === node) : activeCell)?.model;
    const mark = model ? markOf(model) : null;
    return model && mark ? { model, mark } : null;
  }

  /** Make a live cell the active one, and execute it. */
  async runCell({ model }: LiveCellOfRun): Promise<void> {
    const { content, sessionContext } = this.panel;
    content.activeCellIndex = content.widgets.findIndex(widget => widget.model === model);
    await NotebookActions.run(content, sessionContext);
  }

  /** Put a copy of a live cell below the cells of its run. */
  copyCell({ model }: LiveCellOfRun): void {
    this._writer.copy(model, copied(model, model.sharedModel.getSource(), this._trans));
  }

  /** Put a cell below those of the run that begins a new run with the iterations up to that of a live cell. */
  branch({ model, mark }: LiveCellOfRun): void {
    if (canBranch(mark)) {
      const run = this.runs.find(one => one.run === mark.run);
      if (run) {
        this.steering.branch(run, mark.iteration);
      }
      this._writer.copy(model, branched(mark, this._trans), 'code');
    }
  }

  /** Remove the live cells of a cell, as one step that can be undone. */
  remove(parent: string): void {
    this._writer.remove(parent);
    for (const model of this.runs) {
      if (model.parent === parent && model.isOver) {
        this._runs.forget(model);
      }
    }
  }

  /** Hide the live cells of a cell, or show them again. */
  fold(parent: string): void {
    const isShown = this.isFolded(parent);
    for (const view of this._runs.views) {
      view._folds.show(parent, isShown);
      view._bars.refresh();
    }
    this._folds.keep(parent);
  }

  /** Whether the live cells of a cell are hidden. */
  isFolded(parent: string): boolean {
    return this._folds.has(parent);
  }

  /** Go to a cell. */
  async jump(cellId: string): Promise<void> {
    const place = this.panel.content.widgets.findIndex(widget => widget.model.id === cellId);
    if (place >= 0) {
      const mark = markOf(this.panel.content.widgets[place].model);
      if (mark && this.isFolded(mark.parent)) {
        this.fold(mark.parent);
      }
      this.panel.content.activeCellIndex = place;
      await this.panel.content.scrollToItem(place, 'smart');
    }
  }

  source(cellId: string): string | undefined {
    const model = this._writer.widget(cellId)?.model;
    return model?.type === 'code' ? model.sharedModel.getSource() : undefined;
  }

  /** Whether what waits for approval is there to be seen: a call, or a cell that stands in the notebook as code. */
  canApprove({ facts, proposed }: RunModel): boolean {
    return facts.call !== null || (proposed !== undefined && this.source(proposed.id) !== undefined);
  }

  /** Then an interrupt reaches the run. */
  isWaiting(run: RunModel): boolean {
    const widget = this._writer.widget(run.parent);
    return widget instanceof CodeCell && widget.model.executionCount === null;
  }

  /** One that was moved, or deleted and brought back, is another cell for Lab: it hears new outputs, and no updates. */
  isUnheard(run: RunModel): boolean {
    const widget = this._writer.widget(run.parent);
    const asked = this._asked.get(run);
    return isUnheard(widget) || (asked !== undefined && widget !== undefined && widget.model !== asked);
  }

  finish(run: RunModel, shown: Shown): void {
    if (this.isUnheard(run)) {
      finish(this._writer.widget(run.parent), shown);
    }
  }

  write(run: RunModel, changes: Change[]): void {
    this._writer.follow(run, changes);
  }

  /** What is in the notebook is in all of its views; what only shows it, each has to do. */
  draw(run: RunModel, changes: Change[]): void {
    for (const change of changes) {
      if (change.kind === 'child' && change.child.of) {
        this._labels.row(change.child.of);
      }
      if (change.kind !== 'added' && change.kind !== 'inserted' && change.kind !== 'status' && change.kind !== 'done') {
        continue;
      }
      const widget = this._writer.widget(change.cell.id);
      if (widget) {
        this._labels.put(widget);
      }
      if (widget && (change.kind === 'added' || change.kind === 'inserted')) {
        widget.setHidden(this.isFolded(run.parent));
        if (widget instanceof MarkdownCell) {
          widget.rendered = true;
        }
      }
    }
    showUnderWay(this._writer.widget(run.parent), !run.isOver);
    this._bars.of(run)?.refresh();
    this._bars.propose(run);
    if (run.isOver) {
      this._executed.end(run.run);
    }
    this._changed.emit(run);
  }

  clear(parent: string, but: ReadonlySet<string>): void {
    this._writer.remove(parent, but);
    if (this.isFolded(parent)) {
      this.fold(parent); // who asks anew wants to see
    }
  }

  supersede(run: RunModel, but: ReadonlySet<string>): void {
    const asking = this._writer.widget(run.parent);
    if (this._writer.remove(run.parent, but) && asking instanceof CodeCell) {
      asking.model.clearExecution();
    }
  }

  /** A run that was known from the notebook alone gets a bar of its own. */
  meet(run: RunModel): void {
    this._saved.forget(run.run);
    this._bars.remove(run);
    this._asked.set(run, this._writer.widget(run.parent)?.model);
  }

  part(run: RunModel): void {
    this._bars.remove(run);
    this._bars.propose(run);
    this._changed.emit(run);
  }

  dispose(): void {
    const next = this._runs.remove(this);
    if (!next) {
      opened.delete(this.panel.context);
    }
    this._writer.dispose();
    next?._writer.adopt(this._writer);
    this._executed.dispose();
    this._edits.dispose();
    Signal.clearData(this);
  }

  /** Runs that were saved with the notebook have bars, too. */
  private _lookBack(gone: RunModel[], come: RunModel[]): void {
    for (const run of gone) {
      if (!this._runs.get(run.run)) {
        this._bars.remove(run);
      }
      this._changed.emit(run);
    }
    for (const run of come) {
      this._bars.of(run);
      this._changed.emit(run);
    }
  }

  /** Deleted, moved, undone: look once at what has changed by then, however many changes that were. */
  private _soon(_: unknown, { newValues }: { newValues: ICellModel[] }): void {
    if (!this._isLooking) {
      this._isLooking = true;
      window.setTimeout(() => this._look());
    }
    this._arrived.push(...newValues);
  }

  private _look(): void {
    const arrived = this._arrived.splice(0);
    this._isLooking = false;
    if (!this.panel.isDisposed) {
      arrived.forEach(model => this._renew(model));
      // a cell that was moved has lost its bar
      [...this.saved, ...this.runs].forEach(run => this._bars.of(run));
      this.runs.filter(run => !run.isOver).forEach(run => this.draw(run, []));
    }
  }

  /** A cell that was out of the notebook while it was decided about does not wait any more. */
  private _renew(model: ICellModel): void {
    const mark = markOf(model);
    const run = mark?.status === 'proposed' ? this._runs.get(mark.run) : undefined;
    const cell = run?.cell(model.id);
    if (run && cell && cell.status !== 'proposed') {
      this._writer.follow(run, [{ kind: 'done', cell }]);
    }
  }

  /** What the buttons of a run's bar do. */
  private _actions(): BarActions {
    return {
      steering: this.steering,
      fold: model => this.fold(model.parent),
      isFolded: model => this.isFolded(model.parent),
      canApprove: model => this.canApprove(model),
      showProposed: model => void (model.proposed && this.jump(model.proposed.id)),
      showFailed: model => void this.jump(firstFailed(model)?.id ?? model.parent),
      // any view's writer is the one that writes for all of them
      isWritten: model => this._runs.views.every(view => !view._writer.isBehind(model)),
      remove: model => this.remove(model.parent),
      goOn: (from, to) => goOn(this.panel.content, from, to),
      open: model => {
        const place = notebookOf(model);
        if (place) {
          void this.show(place);
        }
      }
    };
  }

  /** What approves this cell, where it waits for that. */
  private _approval(cellId: string): (() => void) | null {
    const run = this.runs.find(run => !run.isOver && run.proposed?.id === cellId);
    return run ? () => this.steering.approve(run) : null;
  }

  /** Whether the notebook's kernel waits for this run to end. */
  private _isBusy(id: string): boolean {
    const run = this._runs.get(id);
    return run !== undefined && !run.isOver && this.isWaiting(run);
  }

  /** Opens the notebook of the run that a cell belongs to, where there is one. */
  private _recordOf(mark: Mark): (() => void) | null {
    const run = [...this.runs, ...this.saved].find(({ run }) => run === mark.run);
    // an earlier run of the cell is known by what its cells say alone
    const place = run ? notebookOf(run) : savedNotebook(String(mark.run_id ?? ''));
    return place ? () => void this.show(place) : null;
  }

  private _relabel(model: ICellModel): void {
    const widget = this._writer.widget(model.id);
    if (widget) {
      this._labels.put(widget);
    }
  }

  private readonly _runs: NotebookRuns<LiveNotebook>;
  private readonly _writer: CellWriter;
  private readonly _executed: Executed;
  private readonly _labels: CellLabels;
  private readonly _edits: Edits;
  private readonly _bars: Bars;
  private readonly _folds: Folds;
  private readonly _saved: SavedRuns;
  /** The cells that asked, as they were when their runs began or were found. */
  private readonly _asked = new WeakMap<RunModel, ICellModel | undefined>();
  /** Cells that were put into the notebook since it was looked at last. */
  private readonly _arrived: ICellModel[] = [];
  private _isLooking = false;
  private readonly _changed = new Signal<this, RunModel>(this);
}
