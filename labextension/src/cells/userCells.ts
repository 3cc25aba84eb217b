/** Looks after live cells that are executed: where they run, and what they show then. */

import { Notification } from '@jupyterlab/apputils';
import type { Cell, CodeCell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { prompt } from '../inline/cellLabels';
import type { CellWriter } from './writer';
import type { Edits } from './edits';
import { isAstray, isEdited, isPasted, leftMarkOf, markOf } from '../model/marks';
import { passLive, stay } from './advance';
import { isRefused, takeExecutions } from './execution';
import { byHand } from './outputs';
import type { ByHand } from './outputs';

const TOLD_MILLISECONDS = 8000;

/** What a cell showed before it was executed. */
interface Before {
  outputs: nbformat.IOutput[];
  count: nbformat.ExecutionCount;
  /** No other cell was executed with it. */
  isAlone: boolean;
}

/** What there is to know of the runs. */
interface Asks {
  /** What approves a cell, where it waits for that; else `null`. */
  approval(cellId: string): (() => void) | null;
  /** Whether the notebook's kernel waits for the end of a run. */
  isBusy(run: string): boolean;
  /** The number of a cell whose run took those after it in the same kernel; else `null`. */
  number(cellId: string): number | null;
}

export class Executed implements IDisposable {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _writer: CellWriter,
    private readonly _edits: Edits,
    private readonly _runs: Asks,
    private readonly _trans: TranslationBundle
  ) {
    this._taking = takeExecutions(cell => this._take(cell));
    NotebookActions.executionScheduled.connect(this._begin, this);
    NotebookActions.executed.connect(this._end, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._taking.dispose();
    NotebookActions.executionScheduled.disconnect(this._begin, this);
    NotebookActions.executed.disconnect(this._end, this);
  }

  /**
   * To execute the cell that waits for approval is to approve it: the notebook's kernel is busy with the run. What is
   * left over from a run has no kernel.
   */
  private _take(cell: CodeCell): Promise<void> | null {
    if (!this._panel.content.widgets.includes(cell)) {
      return null;
    }
    if (leftMarkOf(cell.model)) {
      return Promise.resolve().then(() => (this._scheduled > 1 ? undefined : this._askToTakeOver()));
    }
    if (this._isBusy(cell.model)) {
      return Promise.resolve().then(() => this._askToWait(cell.model));
    }
    const approve = this._runs.approval(cell.model.id);
    // cells that are executed together are all scheduled in one go: then nobody has meant this one
    return approve && Promise.resolve().then(() => (this._scheduled > 1 ? this._askToRunAlone() : approve()));
  }

  /** Lab would clear what it shows until the run is over. */
  private _isBusy(model: ICellModel): boolean {
    const mark = markOf(model);
    return mark !== null && !this._runs.approval(model.id) && this._runs.isBusy(mark.run);
  }

  /** A run is over: what was not run because it went on can be. */
  end(run: string): void {
    for (const [model, its] of this._early) {
      if (its === run) {
        this._early.delete(model);
        this._edits.forget(model);
      }
    }
  }

  private _askToWait(model: ICellModel): void {
    const mark = markOf(model);
    if (mark) {
      this._early.set(model, mark.run);
    }
    const words = this._trans.__('Not run: its run is still going on. Run it when that is over.');
    this._tell(model, words, false, this._scheduled <= 1);
  }

  private _askToRunAlone(): void {
    const words = this._trans.__('A cell waits for your approval: run it by itself to approve it.');
    Notification.info(words, { autoClose: TOLD_MILLISECONDS });
  }

  private _askToTakeOver(): void {
    const words = this._trans.__('Not run: this cell is from an earlier run. Make it your cell to run it.');
    Notification.info(words, { autoClose: TOLD_MILLISECONDS });
  }

  /** Lab is about to clear what a cell shows: keep it, the kernel may not run it. */
  private _begin(_: unknown, args: { notebook: Notebook; cell: Cell }): void {
    if (args.notebook !== this._panel.content) {
      return;
    }
    this._scheduled += 1;
    window.setTimeout(() => (this._scheduled -= 1));
    const { model } = args.cell;
    const waits = this._runs.approval(model.id) !== null;
    if (args.notebook.activeCell === args.cell) {
      // Shift+Enter goes on in this task, to a live cell of this one that will be gone when its run begins
      void Promise.resolve().then(() => {
        if (waits && this._scheduled === 1) {
          stay(args.notebook, model.id); // the next one that waits will come below
        } else {
          passLive(args.notebook, model.id);
        }
      });
    }
    if (isPasted(model)) {
      this._writer.own(model);
    }
    if (model.type === 'code' && markOf(model) && !waits && !this._isBusy(model)) {
      const code = model as ICodeCellModel;
      const before = { outputs: code.outputs.toJSON(), count: code.executionCount, isAlone: true };
      this._before.set(model, before);
      // all that are executed together are scheduled in this task
      void Promise.resolve().then(() => (before.isAlone = this._scheduled === 1));
      this._edits.forget(model);
    }
  }

  private _end(_: unknown, args: { notebook: Notebook; cell: Cell }): void {
    this._number(args.cell);
    const before = this._before.get(args.cell.model);
    if (!before) {
      return;
    }
    this._before.delete(args.cell.model);
    if (args.cell.isDisposed) {
      return;
    }
    const model = args.cell.model as ICodeCellModel;
    const left = leftMarkOf(model);
    if (left) {
      // its run was replaced while it waited for its turn: it shows what it showed as it was left, and no other code's
      this._restore(model, left.ran ? { ...before, count: null } : { ...before, outputs: [], count: null });
      prompt(args.cell);
      return;
    }
    const outputs = model.outputs.toJSON();
    const said = outputs.find(output => byHand(output) !== null);
    const ran = said ? byHand(said) : null;
    if (outputs.some(isRefused)) {
      this._restore(model, before);
      // a kernel without our magics is a new one
      const why = this._trans.__(
        // as the kernel says it (`rlm_jupyter/frontends/live/user_cells.py`)
        "Not run: the kernel of its run is gone. Its cells can be executed in the run's own notebook; " +
          '--rerun in the cell that asked runs it again.'
      );
      this._tell(model, why, true, before.isAlone);
    } else if (ran?.by_hand) {
      this._bind(model, ran);
    } else if (said || (!outputs.length && model.executionCount === null)) {
      this._restore(model, before);
      const data = (said?.data ?? {}) as nbformat.IMimeBundle;
      this._tell(model, [data['text/plain'] ?? ''].flat().join(''), ran?.gone === true, before.isAlone);
      if (ran?.gone) {
        this._release(model);
      }
    } else {
      this._adopt(model);
    }
    prompt(args.cell);
    // before 4.3, Lab takes the number of a cell that has failed away in this task
    window.setTimeout(() => args.cell.isDisposed || prompt(args.cell));
  }

  /** A kernel replies with the number that it counted last: of a cell whose run took more of them, with the run's. */
  private _number({ model, isDisposed }: Cell): void {
    const number = isDisposed || model.type !== 'code' ? null : this._runs.number(model.id);
    if (number !== null && (model as ICodeCellModel).executionCount !== null) {
      this._panel.content.model?.sharedModel.transact(() => ((model as ICodeCellModel).executionCount = number), false);
    }
  }

  /** It ran in the notebook's own kernel, which a run had used, and it was edited: it is the person's own. */
  private _adopt(model: ICellModel): void {
    const mark = markOf(model);
    if (mark && isEdited(model, mark)) {
      this._writer.giveAway(model);
    }
  }

  /** It ran in the kernel of its run: it has its number there, and runs there again, also when it was edited. */
  private _bind(model: ICodeCellModel, ran: ByHand): void {
    const mark = markOf(model);
    model.outputs.fromJSON(model.outputs.toJSON().map(withoutCount));
    this._panel.content.model?.sharedModel.transact(() => {
      model.executionCount = null;
      if (mark) {
        model.setMetadata('rlm', { ...mark, by_hand: true, count: ran.count ?? null } as never);
      }
    }, false);
    this._edits.settle(model);
  }

  /** It was not run: it shows what it showed before. */
  private _restore(model: ICodeCellModel, before: Before): void {
    model.outputs.fromJSON(before.outputs);
    model.executionCount = before.count;
  }

  /** It belongs to no kernel any more. */
  private _release(model: ICellModel): void {
    const mark = markOf(model);
    if (mark?.by_hand) {
      const rest = { ...mark };
      delete rest.by_hand;
      this._panel.content.model?.sharedModel.transact(() => model.setMetadata('rlm', rest), false);
    }
  }

  /** Say why it was not run: in the cell, and where many cells are executed together, once for all of them. */
  private _tell(model: ICellModel, text: string, isGone: boolean, isAlone: boolean): void {
    if (!text) {
      return;
    }
    const mark = markOf(model);
    if (isAlone || (mark && isAstray(model, mark))) {
      this._edits.refuse(model, text, isGone);
    } else if (text !== this._told.text || Date.now() - this._told.at > TOLD_MILLISECONDS) {
      this._told = { text, at: Date.now() };
      Notification.info(text, { autoClose: TOLD_MILLISECONDS });
    }
  }

  private readonly _before = new Map<ICellModel, Before>();
  /** Cells that were executed while their runs went on. */
  private readonly _early = new Map<ICellModel, string>();
  private readonly _taking: IDisposable;
  /** Cells that were scheduled in this task. */
  private _scheduled = 0;
  private _told = { text: '', at: 0 };
  private _isDisposed = false;
}

/** In the notebook's file its number would be that of one of the person's own cells. */
function withoutCount(output: nbformat.IOutput): nbformat.IOutput {
  return 'execution_count' in output ? { ...output, execution_count: null } : output;
}
