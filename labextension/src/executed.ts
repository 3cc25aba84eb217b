/** Looks after live cells that are executed, edited and left: whose they are, and what they show then. */

import { Notification } from '@jupyterlab/apputils';
import type { Cell, CodeCell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import type { CellWriter } from './cells';
import { isEdited, markOf } from './marks';
import { isDone } from './model';
import { takeExecutions } from './taken';

const TOLD_MILLISECONDS = 8000;

/** What the kernel says, in the metadata of an output, of a live cell that was executed. */
interface ByHand {
  /** Whether it ran in the kernel of its run; else it ran nowhere. */
  by_hand: boolean;
  /** Its number there. */
  count?: number | null;
  /** There will be no kernel for it any more. */
  gone?: boolean;
}

export class Executed implements IDisposable {
  /** @param _approval approves a cell, where it waits for that; else it is `null`. */
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _writer: CellWriter,
    private readonly _approval: (cellId: string) => (() => void) | null,
    private readonly _trans: TranslationBundle
  ) {
    this._taking = takeExecutions(cell => this._take(cell));
    _panel.content.activeCellChanged.connect(this._leave, this);
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

  /** A live cell that was edited becomes a cell like any other once it is left, unless it belongs to a kernel still. */
  private _leave(_: Notebook, active: Cell | null): void {
    const left = this._active;
    this._active = active;
    if (left && left !== active && !left.isDisposed && !this._before.has(left.model)) {
      const { model } = left;
      window.setTimeout(() => this._giveAway(model));
    }
  }

  private _giveAway(model: ICellModel): void {
    const mark = markOf(model);
    if (mark && !mark.by_hand && isDone(mark.status as never) && isEdited(model, mark)) {
      this._writer.giveAway(model);
    }
  }

  /** To execute the cell that waits for approval is to approve it: the notebook's kernel is busy with the run. */
  private _take(cell: CodeCell): Promise<void> | null {
    const approve = this._panel.content.widgets.includes(cell) ? this._approval(cell.model.id) : null;
    // cells that are executed together are all scheduled in one go: then nobody has meant this one
    return approve && Promise.resolve().then(() => (this._scheduled > 1 ? this._askToRunAlone() : approve()));
  }

  private _askToRunAlone(): void {
    const words = this._trans.__('A cell waits for your approval: run it by itself to approve it.');
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
    if (model.type === 'code' && markOf(model) && !this._approval(model.id)) {
      const code = model as ICodeCellModel;
      this._before.set(model, { outputs: code.outputs.toJSON(), count: code.executionCount });
    }
  }

  private _end(_: unknown, args: { notebook: Notebook; cell: Cell }): void {
    const before = this._before.get(args.cell.model);
    if (!before) {
      return;
    }
    this._before.delete(args.cell.model);
    if (args.cell.isDisposed) {
      return;
    }
    const model = args.cell.model as ICodeCellModel;
    const outputs = model.outputs.toJSON();
    const said = outputs.find(output => byHand(output) !== null);
    const ran = said ? byHand(said) : null;
    if (ran?.by_hand) {
      this._bind(model, ran);
    } else if (said || (!outputs.length && model.executionCount === null)) {
      model.outputs.fromJSON(before.outputs);
      model.executionCount = before.count;
      this._tell(said);
      if (ran?.gone) {
        this._release(model);
      }
    }
    if (this._panel.content.activeCell?.model !== model) {
      this._giveAway(model);
    }
  }

  /** It ran in the kernel of its run: it has its number there, and runs there again, also when it was edited. */
  private _bind(model: ICodeCellModel, ran: ByHand): void {
    const mark = markOf(model);
    this._panel.content.model?.sharedModel.transact(() => {
      model.executionCount = ran.count ?? null;
      if (mark) {
        model.setMetadata('rlm', { ...mark, by_hand: true });
      }
    }, false);
  }

  /** It belongs to no kernel any more: what a person changed in it is theirs. */
  private _release(model: ICellModel): void {
    const mark = markOf(model);
    if (mark?.by_hand) {
      const rest = { ...mark };
      delete rest.by_hand;
      this._panel.content.model?.sharedModel.transact(() => model.setMetadata('rlm', rest), false);
    }
  }

  /** Say why it was not run; once, where many cells are executed together. */
  private _tell(said: nbformat.IOutput | undefined): void {
    const data = (said?.data ?? {}) as nbformat.IMimeBundle;
    const text = [data['text/plain'] ?? ''].flat().join('');
    if (text && (text !== this._told.text || Date.now() - this._told.at > TOLD_MILLISECONDS)) {
      this._told = { text, at: Date.now() };
      Notification.info(text, { autoClose: TOLD_MILLISECONDS });
    }
  }

  private readonly _before = new Map<ICellModel, { outputs: nbformat.IOutput[]; count: nbformat.ExecutionCount }>();
  private readonly _taking: IDisposable;
  /** Cells that were scheduled in this task. */
  private _scheduled = 0;
  private _active: Cell | null = null;
  private _told = { text: '', at: 0 };
  private _isDisposed = false;
}

function byHand(output: nbformat.IOutput): ByHand | null {
  const metadata = output.metadata as { rlm?: Partial<ByHand> } | undefined;
  return typeof metadata?.rlm?.by_hand === 'boolean' ? (metadata.rlm as ByHand) : null;
}
