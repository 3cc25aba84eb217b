/** The live cells that are in a notebook: finds them, marks them, takes them out, gives them away. */

import { MarkdownCell } from '@jupyterlab/cells';
import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import type { LiveCell } from '../protocol/messages';
import { keepFocus } from './advance';
import { byHand } from './outputs';
import { isAstray, isEdited, LEFT_TAGS, leftId, leftMarkOf, markOf } from '../model/marks';
import type { Mark } from '../model/marks';
import { isDone } from '../model/run';

export class NotebookCells {
  constructor(protected readonly _panel: NotebookPanel) {}

  /** A cell was left over. */
  readonly left = new Signal<this, ICellModel>(this);

  /** Remove the live cells of a cell that asks anew; what belongs to the runs in `but` stays. */
  remove(parent: string, but: ReadonlySet<string> = new Set()): number {
    const all = this.marked().filter(({ mark }) => mark.parent === parent && !but.has(mark.run));
    for (const { model, mark } of all) {
      if ((isEdited(model, mark) || mark.edit !== undefined) && isDone(mark.status as LiveCell['status'])) {
        this._leave(model, mark);
      }
    }
    const ids = new Set(all.map(({ model }) => model.id).filter(id => this._mark(id) !== null));
    this._delete(ids);
    return ids.size;
  }

  /** Remove a cell that is left over from a run, as one step that can be undone. */
  discard(model: ICellModel): void {
    this._delete(new Set([model.id]));
  }

  private _delete(ids: ReadonlySet<string>): void {
    const shared = this._shared;
    if (shared && ids.size) {
      // one step that can be undone: changes within half a second would otherwise become one with those beside them
      const { undoManager } = shared as { undoManager?: { stopCapturing(): void } };
      undoManager?.stopCapturing();
      keepFocus(this._panel.content, () => {
        shared.transact(() => {
          for (let place = shared.cells.length - 1; place >= 0; place--) {
            if (ids.has(shared.cells[place].getId())) {
              shared.deleteCell(place);
            }
          }
        }, true);
      });
      undoManager?.stopCapturing();
    }
  }

  /** All live cells of the notebook, in order. */
  marked(): { model: ICellModel; mark: Mark }[] {
    const cells = this._panel.content.model?.cells;
    return Array.from(cells ?? [], model => ({ model, mark: markOf(model) })).filter(
      (item): item is { model: ICellModel; mark: Mark } => item.mark !== null
    );
  }

  /** What a person wrote outlives the run. Code stays out of Run All until they take it over; prose is theirs. */
  private _leave(model: ICellModel, mark: Mark): void {
    if (model.type !== 'code') {
      this.giveAway(model);
      return;
    }
    const isAsRun = !isAstray(model, mark) && mark.edit === undefined;
    const left = { ...mark, left: true, ran: isAsRun && mark.by_hand === true };
    delete left.by_hand;
    delete left.edit;
    delete left.reason;
    this._shared?.transact(() => {
      model.setMetadata('rlm', left);
      model.setMetadata('tags', LEFT_TAGS);
      if (mark.edit !== undefined) {
        model.sharedModel.setSource(mark.edit);
      }
    }, false);
    const code = model as ICodeCellModel;
    if (isAsRun) {
      // where it ran was said by a name that means another run from now on; the line below the cell says it, too
      code.outputs.fromJSON(code.outputs.toJSON().filter(output => byHand(output) === null));
    } else {
      // it shows the outputs of other code, which is in the run's own notebook
      code.outputs.clear();
      this._shared?.transact(() => (code.executionCount = null), false);
    }
    this.left.emit(model);
  }

  /** It was refused, or the run was stopped: what a person wrote there is left below it, and taken over by a click. */
  protected _keepEdit(model: ICellModel): void {
    const mark = markOf(model);
    const cell = {
      cell_type: 'code',
      id: leftId(mark?.run ?? ''),
      source: model.sharedModel.getSource(),
      metadata: { tags: [...LEFT_TAGS], rlm: { ...mark, left: true } },
      outputs: []
    };
    this._shared?.transact(() => this._shared?.insertCell(this._index(model.id) + 1, cell as never), false);
  }

  /** Put a cell of the person's own below those of the run that `model` belongs to, and make it the active one. */
  copy(model: ICellModel, source: string, type = model.type): void {
    const run = markOf(model)?.run;
    const all = this.marked().filter(({ mark }) => mark.run === run);
    const place = this._index(all[all.length - 1]?.model.id ?? model.id) + 1;
    // as Lab inserts one of code: without it, the notebook would count as one of somebody else's
    const parts = type === 'code' ? { outputs: [], metadata: { trusted: true } } : { metadata: {} };
    const cell = { cell_type: type, source, ...parts };
    this._shared?.transact(() => this._shared?.insertCell(place, cell as never), true);
    this._panel.content.activeCellIndex = place;
    void this._panel.content.scrollToItem(place, 'smart');
  }

  /** Take what marks a live cell from one that is a person's: what executes notebooks would pass over it. */
  own(model: ICellModel): void {
    const tags = ((model.getMetadata('tags') ?? []) as string[]).filter(tag => !LEFT_TAGS.includes(tag));
    this._shared?.transact(() => {
      model.deleteMetadata('rlm');
      if (tags.length) {
        model.setMetadata('tags', tags);
      } else {
        model.deleteMetadata('tags');
      }
    }, false);
  }

  /** A person takes a cell over: it becomes one like any other, with an id of its own. */
  giveAway(model: ICellModel): void {
    const shared = this._shared;
    const place = this._index(model.id);
    if (!shared || place < 0) {
      return;
    }
    const content = model.toJSON() as nbformat.ICell;
    const metadata = { ...content.metadata } as Record<string, unknown>;
    delete metadata.rlm;
    metadata.tags = ((metadata.tags as string[] | undefined) ?? []).filter(tag => !LEFT_TAGS.includes(tag));
    if (!(metadata.tags as string[]).length) {
      delete metadata.tags;
    }
    delete content.id;
    const trusted = model.trusted;
    const rendered = this.widget(model.id) instanceof MarkdownCell;
    const outputs = content.outputs as nbformat.IOutput[] | undefined;
    delete content.outputs;
    shared.transact(() => {
      shared.deleteCell(place);
      shared.insertCell(place, { ...content, metadata } as never);
    }, false);
    const own = this._panel.content.model?.cells.get(place);
    if (own) {
      own.trusted = trusted;
      if (own.type === 'code' && outputs) {
        (own as ICodeCellModel).outputs.fromJSON(outputs);
      }
      const widget = this.widget(own.id);
      if (rendered && widget instanceof MarkdownCell) {
        widget.rendered = true;
      }
    }
  }

  /** The widget of a cell. */
  widget(id: string): Cell | undefined {
    const widget = this._panel.content.widgets[this._index(id)] as Cell | undefined;
    return widget?.model.id === id ? widget : this._panel.content.widgets.find(other => other.model.id === id);
  }

  /** Show that a cell is a live one. */
  decorate(widget: Cell, label: (mark: Mark) => string): void {
    const mark = markOf(widget.model);
    widget.toggleClass('rlm-live', mark !== null);
    widget.toggleClass('rlm-left', leftMarkOf(widget.model) !== null);
    if (mark) {
      widget.node.dataset.rlmRole = mark.role;
      widget.node.dataset.rlmStatus = mark.status;
      if (typeof mark.depth === 'number') {
        widget.node.dataset.rlmDepth = `${mark.depth}`;
      }
      widget.node.setAttribute('aria-label', label(mark));
    }
  }

  protected get _shared(): NonNullable<NotebookPanel['content']['model']>['sharedModel'] | undefined {
    return this._panel.content.model?.sharedModel;
  }

  protected _index(id: string): number {
    const cells = this._shared?.cells ?? [];
    const hint = this._places.get(id);
    if (hint !== undefined && cells[hint]?.getId() === id) {
      return hint;
    }
    if (this._isMissing(id)) {
      return -1;
    }
    const place = cells.findIndex(cell => cell.getId() === id);
    if (place >= 0) {
      this._places.set(id, place);
    } else {
      this._missing.add(id);
    }
    return place;
  }

  protected _find(id: string): ICellModel | undefined {
    const place = this._index(id);
    return place < 0 ? undefined : this._panel.content.model?.cells.get(place);
  }

  private _mark(id: string): Mark | null {
    const model = this._find(id);
    return model ? markOf(model) : null;
  }

  protected _isOurs(model: ICellModel): boolean {
    const mark = markOf(model);
    if (!mark) {
      return false;
    }
    // a cell that waits for approval is there to be edited; one that was run by hand shows what came of that, and one
    // whose edit was not run keeps that edit for its person, whatever the run tells once more
    return mark.status === 'proposed' || (!mark.by_hand && mark.edit === undefined && !isEdited(model, mark));
  }

  /** Whether a cell was looked for in vain, and no cells have come since. */
  private _isMissing(id: string): boolean {
    const all = this._panel.content.model?.cells;
    if (all !== this._looked) {
      this._looked = all;
      this._missing.clear();
      all?.changed.connect(() => this._missing.clear());
    }
    return this._missing.has(id);
  }

  /** Where cells were when they were looked for last. */
  protected readonly _places = new Map<string, number>();
  private readonly _missing = new Set<string>();
  private _looked: NonNullable<NotebookPanel['content']['model']>['cells'] | undefined;
}
