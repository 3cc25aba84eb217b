/** Writes a run's cells into a notebook, and leaves alone what is somebody's own. */

import { CodeCell, MarkdownCell } from '@jupyterlab/cells';
import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { LiveCell, Output } from './events';
import { isEdited, markOf, TAGS } from './marks';
import type { Mark } from './marks';
import { digest, isDone } from './model';
import type { Change, RunModel } from './model';

const RENDER_MILLISECONDS = 200;

export class CellWriter {
  constructor(private readonly _panel: NotebookPanel) {}

  /** Remove the live cells of a cell that asks anew; what belongs to the runs in `but` stays. */
  remove(parent: string, but: ReadonlySet<string> = new Set()): number {
    const all = this.marked().filter(({ mark }) => mark.parent === parent && !but.has(mark.run));
    for (const { model, mark } of all) {
      if (isEdited(model, mark) && isDone(mark.status as LiveCell['status'])) {
        this.giveAway(model);
      }
    }
    const ids = new Set(all.map(({ model }) => model.id).filter(id => this._mark(id) !== null));
    const shared = this._shared;
    if (shared && ids.size) {
      // one step that can be undone: changes within half a second would otherwise become one with those beside them
      const { undoManager } = shared as { undoManager?: { stopCapturing(): void } };
      undoManager?.stopCapturing();
      shared.transact(() => {
        for (let place = shared.cells.length - 1; place >= 0; place--) {
          if (ids.has(shared.cells[place].getId())) {
            shared.deleteCell(place);
          }
        }
      }, true);
      undoManager?.stopCapturing();
    }
    return ids.size;
  }

  /** All live cells of the notebook, in order. */
  marked(): { model: ICellModel; mark: Mark }[] {
    const cells = this._panel.content.model?.cells;
    return Array.from(cells ?? [], model => ({ model, mark: markOf(model) })).filter(
      (item): item is { model: ICellModel; mark: Mark } => item.mark !== null
    );
  }

  /** Bring the notebook up to a change of the run. */
  apply(run: RunModel, change: Change): void {
    switch (change.kind) {
      case 'placed':
        return this._place(run, change.cell);
      case 'gone':
        return this._delete(change.id);
      case 'facts':
      case 'ended':
        return;
    }
    const model = this._find(change.cell.id);
    if (!model || !this._isOurs(model)) {
      return;
    }
    const { cell } = change;
    switch (change.kind) {
      case 'source':
        return this._write(run, model, cell);
      case 'text':
        return this._grow(model, cell, change.text);
      case 'outputs':
        return this._setOutputs(model, cell.outputs, change.from);
      case 'status':
        return this._sign(run, model, cell);
      case 'done':
        this._write(run, model, cell);
        this._setOutputs(model, cell.outputs, 0);
        return this._sign(run, model, cell);
    }
  }

  /** A live cell that somebody has edited is theirs: a cell like any other, with an id of its own. */
  giveAway(model: ICellModel): void {
    const shared = this._shared;
    const place = this._index(model.id);
    if (!shared || place < 0) {
      return;
    }
    const content = model.toJSON() as nbformat.ICell;
    const metadata = { ...content.metadata } as Record<string, unknown>;
    delete metadata.rlm;
    metadata.tags = ((metadata.tags as string[] | undefined) ?? []).filter(tag => !TAGS.includes(tag));
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
    return this._panel.content.widgets.find(widget => widget.model.id === id);
  }

  /** Show that a cell is a live one. */
  decorate(widget: Cell, label: (mark: Mark) => string): void {
    const mark = markOf(widget.model);
    widget.toggleClass('rlm-live', mark !== null);
    if (mark) {
      widget.node.dataset.rlmRole = mark.role;
      widget.node.dataset.rlmStatus = mark.status;
      widget.node.setAttribute('aria-label', label(mark));
    }
  }

  private get _shared(): NonNullable<NotebookPanel['content']['model']>['sharedModel'] | undefined {
    return this._panel.content.model?.sharedModel;
  }

  private _index(id: string): number {
    return this._shared?.cells.findIndex(cell => cell.getId() === id) ?? -1;
  }

  private _find(id: string): ICellModel | undefined {
    const place = this._index(id);
    return place < 0 ? undefined : this._panel.content.model?.cells.get(place);
  }

  private _mark(id: string): Mark | null {
    const model = this._find(id);
    return model ? markOf(model) : null;
  }

  private _isOurs(model: ICellModel): boolean {
    const mark = markOf(model);
    if (!mark) {
      return false;
    }
    // a cell that waits for approval is there to be edited
    return mark.status === 'proposed' || !isEdited(model, mark);
  }

  /** Where a cell belongs: below the one before it, else below the run's last one, else below the one that asked. */
  private _spot(run: RunModel, cell: LiveCell): number {
    const before = this._index(cell.after ?? run.parent);
    if (before >= 0) {
      return before + 1;
    }
    const there = run.cells.map(other => this._index(other.id)).filter(place => place >= 0);
    const last = Math.max(this._index(run.parent), ...there);
    return last >= 0 ? last + 1 : (this._shared?.cells.length ?? 0);
  }

  private _place(run: RunModel, cell: LiveCell): void {
    const shared = this._shared;
    if (!shared || this._index(cell.id) >= 0) {
      return;
    }
    const place = this._spot(run, cell);
    shared.transact(() => {
      shared.insertCell(place, {
        cell_type: cell.type,
        id: cell.id,
        source: cell.source,
        metadata: { tags: [...TAGS], rlm: this._markFor(run, cell) }
      } as never);
    }, false);
    const model = this._panel.content.model?.cells.get(place);
    if (!model || model.id !== cell.id) {
      return;
    }
    if (cell.type === 'code') {
      // never on Markdown: a server would take it for a part of the notebook, and lose the signature
      model.trusted = true;
      this._setOutputs(model, cell.outputs, 0);
    }
    this._sign(run, model, cell);
    this._render(cell.id);
  }

  private _delete(id: string): void {
    const shared = this._shared;
    const model = this._find(id);
    if (shared && model && this._isOurs(model)) {
      shared.transact(() => shared.deleteCell(this._index(id)), false);
    }
  }

  private _markFor(run: RunModel, cell: LiveCell): Mark {
    const facts: Partial<LiveCell['facts']> = { ...cell.facts };
    // these stand where other extensions look for them
    delete facts.started;
    delete facts.ended;
    return {
      v: 1,
      run: run.run,
      parent: run.parent,
      ...(run.facts.run_id ? { run_id: run.facts.run_id } : {}),
      ...facts,
      role: cell.facts.role,
      iteration: cell.facts.iteration,
      status: cell.status,
      written: digest(cell.source)
    };
  }

  private _write(run: RunModel, model: ICellModel, cell: LiveCell): void {
    const now = model.sharedModel.getSource();
    if (now === cell.source) {
      return;
    }
    let same = 0;
    while (same < now.length && same < cell.source.length && now[same] === cell.source[same]) {
      same++;
    }
    this._shared?.transact(() => {
      model.sharedModel.updateSource(same, now.length, cell.source.slice(same));
      model.setMetadata('rlm', this._markFor(run, cell));
    }, false);
    this._render(cell.id);
  }

  /** Say what a cell is and how far it is. */
  private _sign(run: RunModel, model: ICellModel, cell: LiveCell): void {
    const { started, ended } = cell.facts;
    this._shared?.transact(() => {
      const mark = this._markFor(run, cell);
      model.setMetadata('rlm', { ...mark, written: digest(model.sharedModel.getSource()) });
      if (started) {
        model.setMetadata('execution', {
          'iopub.execute_input': started,
          'shell.execute_reply.started': started,
          ...(ended ? { 'shell.execute_reply': ended } : {})
        });
      }
    }, false);
    if (model.type === 'code') {
      const code = model as ICodeCellModel;
      this._shared?.transact(() => {
        code.executionCount = cell.execution_count;
        // Lab shows `[*]` by this
        (code.sharedModel as { executionState?: string }).executionState =
          cell.status === 'running' ? 'running' : 'idle';
      }, false);
    }
    const widget = this.widget(cell.id);
    if (widget) {
      widget.node.dataset.rlmStatus = cell.status;
    }
  }

  /** Outputs go through the model and never inside a transaction: there, text would double. */
  private _setOutputs(model: ICellModel, outputs: Output[], from: number): void {
    if (model.type !== 'code') {
      return;
    }
    const area = (model as ICodeCellModel).outputs;
    const told = outputs as unknown as nbformat.IOutput[];
    if (from === 0 && JSON.stringify(area.toJSON()) === JSON.stringify(told)) {
      return;
    }
    if (area.length !== from) {
      area.fromJSON(told);
      return;
    }
    for (const output of told.slice(from)) {
      area.add(output);
    }
  }

  private _grow(model: ICellModel, cell: LiveCell, text: string): void {
    const area = (model as ICodeCellModel).outputs;
    const last = cell.outputs[cell.outputs.length - 1];
    if (area.length === cell.outputs.length && last.output_type === 'stream') {
      area.add({ output_type: 'stream', name: last.name ?? 'stdout', text });
    } else {
      this._setOutputs(model, cell.outputs, 0);
    }
  }

  /** Draw Markdown, now and then while it arrives: by itself Lab waits until nothing comes any more. */
  private _render(id: string): void {
    if (this._due.has(id)) {
      return;
    }
    const draw = (): void => {
      const widget = this.widget(id);
      if (widget instanceof MarkdownCell && !widget.isDisposed) {
        widget.rendered = true;
        widget.update();
      } else if (widget instanceof CodeCell) {
        widget.update();
      }
    };
    draw();
    this._due.add(id);
    setTimeout(() => {
      this._due.delete(id);
      draw();
    }, RENDER_MILLISECONDS);
  }

  private readonly _due = new Set<string>();
}
