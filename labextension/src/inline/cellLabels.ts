/** Live cells look and are named as what they are, in one view of a notebook. */

import { CodeCell } from '@jupyterlab/cells';
import type { Cell, ICellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { CellWriter } from '../cells/writer';
import { keepDrawn } from '../compat/drawnInView';
import type { Rows } from './children';
import type { Edits } from '../cells/edits';
import type { LongCode } from './longCode';
import { isAstray, leftMarkOf, markOf } from '../model/marks';
import type { Mark } from '../model/marks';

export class CellLabels {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _writer: CellWriter,
    private readonly _rows: Rows,
    private readonly _edits: Edits,
    private readonly _longCode: LongCode,
    private readonly _isUnderWay: (run: string) => boolean,
    private readonly _trans: TranslationBundle
  ) {}

  /** Label all cells that are there, and from now on those that come by another way than from the kernel. */
  start(): void {
    this._panel.content.widgets.forEach(widget => this.put(widget));
    this._panel.content.model?.cells.changed.connect(this._soon, this);
  }

  /** Label a cell. */
  put(widget: Cell): void {
    this._writer.decorate(widget, mark => this._label(mark));
    this._rows.label(widget);
    this._edits.label(widget);
    this._longCode.label(widget);
    prompt(widget, this._isUnderWay);
    if (!this._labelled.has(widget)) {
      this._labelled.add(widget);
      keepDrawn(this._panel.content, widget);
      // Lab names a cell anew when it comes into view for the first time
      void widget.ready.then(() => !widget.isDisposed && this.put(widget));
    }
  }

  /** The row of children below the cell of sub-calls with this id. */
  row(cellId: string): void {
    const widget = this._writer.widget(cellId);
    if (widget) {
      this._rows.label(widget);
    }
  }

  /** Undone, pasted, loaded. */
  private _soon(_: unknown, change: { newValues: ICellModel[] }): void {
    const isDue = this._unlabelled.size > 0;
    const ours = change.newValues.filter(model => markOf(model) ?? leftMarkOf(model));
    ours.forEach(model => this._unlabelled.add(model.id));
    if (!isDue && this._unlabelled.size) {
      window.setTimeout(() => {
        const widgets = this._panel.isDisposed ? [] : [...this._unlabelled].map(id => this._writer.widget(id));
        this._unlabelled.clear();
        widgets.filter(widget => widget !== undefined).forEach(widget => this.put(widget));
      });
    }
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
    if (mark.role === 'boundary') {
      return trans.__('Cells of a run');
    }
    const what = trans.__('%1, iteration %2', names[mark.role] ?? mark.role, mark.iteration);
    return typeof mark.depth === 'number' ? trans.__('%1, of a child at depth %2', what, mark.depth) : what;
  }

  private readonly _labelled = new WeakSet<Cell>();
  private readonly _unlabelled = new Set<string>();
}

/**
 * Show the number of a code cell in the kernel of its run, or that it runs. In the notebook's file it has none: it
 * would be the number of one of the person's own cells. Before 4.3, Lab does not see by the model that a cell runs.
 */
export function prompt(widget: Cell, isUnderWay: (run: string) => boolean = () => false): void {
  if (widget instanceof CodeCell) {
    const text = promptOf(widget.model, isUnderWay);
    void widget.ready.then(() => text === null || widget.isDisposed || widget.setPrompt(text));
  }
}

/** What stands there; `null`: it is no cell of a run. */
function promptOf(model: ICellModel, isUnderWay: (run: string) => boolean): string | null {
  const left = leftMarkOf(model);
  if (left) {
    return left.ran ? `${left.count ?? ''}` : '';
  }
  const mark = markOf(model);
  if (!mark) {
    return null;
  }
  const number = isAstray(model, mark) ? '' : `${mark.count ?? ''}`;
  // a cell that was saved while it ran, does not any more
  return mark.status === 'running' && isUnderWay(mark.run) ? '*' : number;
}
