/** Writes a run's cells into a notebook, and leaves alone what is somebody's own. */

import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { keepStyles, withoutCursors } from '../performance/editors';
import type { LiveCell, Output } from '../protocol/messages';
import { withHeights } from '../performance/outputHeights';
import { cellJson, insertedTogether } from './cellJson';
import { isEdited, leftMarkOf, markFor, markOf } from '../model/marks';
import { isDone } from '../model/run';
import type { Change, RunModel } from '../model/run';
import { NotebookCells } from './notebookCells';
import { writeOutputs } from './outputs';
import { Rendering } from './rendering';
import { sign } from './sign';
import { Slices } from '../performance/timeSlices';
import type { Left } from '../performance/timeSlices';
import { spotOf } from './position';

/** How long, at most, cells wait until JupyterLab has rendered those that were inserted before them. */
const FILL_MILLISECONDS = 400;

/** What of a cell is to be brought up to date. */
interface Pending {
  run: RunModel;
  kinds: Set<Change['kind']>;
}

/**
 * Changes are not replayed: a cell is brought to what it is by then, when its turn comes. So a page that is
 * slower than the run skips what lay between, and stays responsive.
 */
export class CellWriter extends NotebookCells {
  /** @param _onWritten is told what was written. */
  constructor(
    panel: NotebookPanel,
    private readonly _onWritten: (run: RunModel, changes: Change[]) => void = () => undefined
  ) {
    super(panel);
    this._rendering = new Rendering(panel, id => this.widget(id));
  }

  override remove(parent: string, but: ReadonlySet<string> = new Set()): number {
    for (const [id, { run }] of this._pending) {
      if (run.parent === parent && !but.has(run.run)) {
        this._pending.delete(id);
      }
    }
    return super.remove(parent, but);
  }

  /** Bring the notebook up to these changes of the run: soon, and in their order. */
  follow(run: RunModel, changes: Change[]): void {
    for (const change of changes) {
      const id = 'cell' in change ? change.cell.id : change.kind === 'gone' ? change.id : undefined;
      if (id === undefined) {
        continue;
      }
      const pending = this._pending.get(id) ?? { run, kinds: new Set() };
      pending.kinds.add(change.kind);
      this._pending.set(id, pending);
      if (run.cell(id)?.status === 'proposed') {
        // somebody is asked about it: it has to stand there as it is
        this._update(id);
      }
    }
    if (this._pending.size) {
      this._slices.wake();
    }
  }

  /** Whether something of this run is still to be written. */
  isBehind(run: RunModel): boolean {
    return [...this._pending.values()].some(pending => pending.run === run);
  }

  /** Take over what another writer of this notebook, which is disposed, has not written yet. */
  adopt(other: CellWriter): void {
    for (const [id, pending] of other._pending) {
      this._pending.set(id, pending);
    }
    this._slices.wake();
  }

  dispose(): void {
    this._slices.dispose();
  }

  private _writeNext(): Left {
    const unread = this._unread.shift();
    if (unread !== undefined) {
      // Lab keeps them; else its table of contents reads all cells of a run in one go, a second after the last of them
      readHeadings(this.widget(unread));
      return 'more';
    }
    for (const id of this._pending.keys()) {
      const isNew = this._pending.get(id)?.kinds.has('added') && this._index(id) < 0;
      if (isNew && this._isFilling()) {
        return 'later';
      }
      this._update(id);
      // Lab draws a cell in the same task that it was put in
      return isNew ? 'later' : 'more';
    }
    return 'nothing';
  }

  /** Bring a cell, and new ones right below it, up to what they are now. */
  private _update(id: string): void {
    const pending = this._pending.get(id);
    if (!pending) {
      return;
    }
    const { run, kinds } = pending;
    const cell = run.cell(id);
    if (cell && kinds.has('moved')) {
      this._takeOut(run, id, kinds);
    }
    if (cell && kinds.has('added') && this._index(id) < 0) {
      const cells = this._insertable(run, cell);
      cells.forEach(({ id }) => this._pending.delete(id));
      this._insert(run, cells);
      const changes = cells.map((cell): Change => ({ kind: 'inserted', cell }));
      this._onWritten(run, changes);
      return;
    }
    this._pending.delete(id);
    const model = this._find(id);
    if (!model || !this._isOurs(model)) {
      return;
    }
    if (this._isBeingEdited(model, cell?.source)) {
      if (cell?.status === 'proposed') {
        return; // what a person is writing there stays
      }
      this._keepEdit(model);
    }
    if (!cell) {
      this._shared?.transact(() => this._shared?.deleteCell(this._index(id)), false);
      this._outputs.delete(id);
      return;
    }
    const isWhole = kinds.has('done') || kinds.has('added');
    if (isWhole || kinds.has('source')) {
      this._write(run, model, cell);
    }
    if (isWhole || kinds.has('outputs') || kinds.has('text')) {
      this._setOutputs(model, cell);
    }
    if (isWhole) {
      this._unread.push(id);
    }
    if (isWhole || kinds.has('status')) {
      sign(this._shared, model, run, cell, this.widget(cell.id));
      this._onWritten(run, [{ kind: isWhole ? 'done' : 'status', cell }]);
    }
  }

  /** Take a cell out that does not stand where it should, so that it is put there. */
  private _takeOut(run: RunModel, id: string, kinds: Pending['kinds']): void {
    kinds.delete('moved');
    const ids = run.cells.map(cell => cell.id).filter(id => this._index(id) >= 0);
    const [before, after] = [ids[ids.indexOf(id) - 1] ?? run.parent, ids[ids.indexOf(id) + 1]];
    const place = this._index(id);
    const isWrong = this._index(before) > place || (after !== undefined && this._index(after) < place);
    const model = this._find(id);
    if (isWrong && model && this._isOurs(model)) {
      this._shared?.transact(() => this._shared?.deleteCell(place), false);
      this._outputs.delete(id);
      kinds.add('added');
    }
  }

  /** Whether a person has changed the cell that waits for approval, and `source` is not what they wrote. */
  private _isBeingEdited(model: ICellModel, source: string | undefined): boolean {
    const mark = markOf(model);
    const isEdit = mark?.status === 'proposed' && isEdited(model, mark);
    return isEdit && model.sharedModel.getSource() !== source;
  }

  /** A cell that is not in the notebook yet, and those that come right below it. */
  private _insertable(run: RunModel, first: LiveCell): LiveCell[] {
    if (first.facts.role === 'notice') {
      return [first]; // a person's edit of the cell above it may stand between it and what comes next
    }
    const others = [...this._pending.keys()].flatMap(id => run.cell(id) ?? []);
    return insertedTogether(first, others, ({ id, status }) => {
      const pending = this._pending.get(id);
      return pending?.run === run && pending.kinds.has('added') && status !== 'proposed' && this._index(id) < 0;
    });
  }

  /** Whether Lab has still to draw the cells that were put in last. */
  private _isFilling(): boolean {
    if (performance.now() - this._lastInserted.at > FILL_MILLISECONDS || !this._panel.isVisible || document.hidden) {
      return false;
    }
    return this._lastInserted.widgets.some(widget => !widget.isDisposed && widget.isPlaceholder());
  }

  /** Put cells into the notebook, one below the other. */
  private _insert(run: RunModel, cells: LiveCell[]): void {
    const shared = this._shared;
    if (!shared) {
      return;
    }
    const spot = {
      id: cells[0].id,
      after: cells[0].after,
      parent: run.parent,
      order: run.cells.map(({ id }) => id),
      marked: this.marked().flatMap(({ mark, model }) => (mark.run === run.run ? [model.id] : [])),
      length: shared.cells.length
    };
    const spotted = spotOf(spot, id => this._index(id));
    // that a cell was refused stands right below it
    const place = cells[0].facts.role === 'notice' ? spotted : this._belowLeft(spotted, run);
    const json = cells.map(cell => cellJson(run, cell));
    keepStyles();
    withoutCursors(this._panel.content, () => {
      shared.transact(() => shared.insertCells(place, json as never), false);
    });
    cells.forEach((cell, offset) => this._fill(run, cell, place + offset));
    const widgets = cells.map(cell => this.widget(cell.id)).filter(widget => widget !== undefined);
    this._lastInserted = { at: performance.now(), widgets };
  }

  /** What a person wrote in a cell of the run that was refused stays below that cell, and what was said of it. */
  private _belowLeft(place: number, { run }: RunModel): number {
    const cells = this._panel.content.model?.cells;
    let free = place;
    while (cells && free < cells.length && leftMarkOf(cells.get(free))?.run === run) {
      free++;
    }
    return free;
  }

  private _fill(run: RunModel, cell: LiveCell, place: number): void {
    const model = this._panel.content.model?.cells.get(place);
    if (!model || model.id !== cell.id) {
      return;
    }
    this._places.set(cell.id, place);
    if (cell.type === 'code') {
      model.trusted = true;
      this._outputs.set(cell.id, isDone(cell.status) ? [...cell.outputs] : []);
      this._setOutputs(model, cell);
    }
    if (isDone(cell.status)) {
      this._unread.push(cell.id);
    }
    sign(this._shared, model, run, cell, this.widget(cell.id));
    this._rendering.render(cell);
  }

  private _write(run: RunModel, model: ICellModel, cell: LiveCell): void {
    const now = model.sharedModel.getSource();
    if (now === cell.source) {
      return;
    }
    let same = cell.source.startsWith(now) ? now.length : 0;
    while (same < now.length && same < cell.source.length && now[same] === cell.source[same]) {
      same++;
    }
    this._shared?.transact(() => {
      model.sharedModel.updateSource(same, now.length, cell.source.slice(same));
      model.setMetadata('rlm', markFor(run, cell));
    }, false);
    this._rendering.render(cell);
  }

  private _setOutputs(model: ICellModel, cell: LiveCell): void {
    if (model.type === 'code') {
      withHeights(this.widget(cell.id), cell.outputs, () => {
        writeOutputs((model as ICodeCellModel).outputs, cell.outputs, this._outputs.get(cell.id));
      });
      if (isDone(cell.status)) {
        this._outputs.delete(cell.id);
      } else {
        this._outputs.set(cell.id, [...cell.outputs]);
      }
    }
  }

  private readonly _pending = new Map<string, Pending>();
  /** Cells that are done, and whose headings were not looked for yet. */
  private readonly _unread: string[] = [];
  private readonly _slices = new Slices(() => this._writeNext());
  /** The outputs that were written last, of cells that are not done. */
  private readonly _outputs = new Map<string, Output[]>();
  private readonly _rendering: Rendering;
  private _lastInserted: { at: number; widgets: Cell[] } = { at: 0, widgets: [] };
}

/** Let Lab parse a cell's headings now; before JupyterLab 4.3 it has no method for that, and parses them when asked. */
function readHeadings(cell: { getHeadings?: () => Promise<unknown> } | undefined): void {
  cell?.getHeadings?.().catch(() => undefined);
}
