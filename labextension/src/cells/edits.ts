/** Code cells of runs that a person edits: an output that belongs to other code is shown as what it is. */

import type { Cell, ICellModel } from '@jupyterlab/cells';
import type { Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import type { NotebookCells } from './notebookCells';
import { copied, isAstray, isEdited, leftMarkOf, markOf } from '../model/marks';
import type { Mark } from '../model/marks';
import { isDone } from '../model/run';
import { addTo, Strip } from '../inline/strip';
import type { StripButton } from '../inline/strip';

/** Why a cell was not executed. */
interface Refusal {
  text: string;
}

interface Change {
  sourceChange?: unknown;
}

export class Edits implements IDisposable {
  /** @param _record opens the notebook of a cell's run; `null`: there is none. */
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _writer: NotebookCells,
    private readonly _record: (mark: Mark) => (() => void) | null,
    private readonly _trans: TranslationBundle
  ) {
    _panel.content.activeCellChanged.connect(this._watch, this);
    this._watch(_panel.content, _panel.content.activeCell);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._panel.content.activeCellChanged.disconnect(this._watch, this);
    this._unwatch();
  }

  /** Show below a cell what there is to know of its source. */
  label(widget: Cell): void {
    const { model } = widget;
    if (model.type !== 'code') {
      return;
    }
    const mark = markOf(model);
    const isOther = mark !== null && isDone(mark.status as never) && isAstray(model, mark);
    widget.toggleClass('rlm-astray', isOther);
    const refusal = this._refusalOf(model, mark);
    const state = this._stateOf(model, mark, refusal, isOther);
    const known = this._strips.get(widget);
    if ((known?.state ?? '') === state) {
      return;
    }
    known?.strip.dispose();
    this._strips.delete(widget);
    const strip = this._strip(model, mark, refusal);
    if (state && strip) {
      this._strips.set(widget, { state, strip });
      addTo(widget, strip);
    }
  }

  /** Why a cell was not executed; of one that keeps its edit, also when the page was loaded since. */
  private _refusalOf(model: ICellModel, mark: Mark | null): Refusal | undefined {
    const saved = mark?.edit === undefined || mark.reason === undefined ? undefined : { text: mark.reason };
    return this._refusals.get(model) ?? saved;
  }

  private _stateOf(model: ICellModel, mark: Mark | null, refusal: Refusal | undefined, isOther: boolean): string {
    if (!mark) {
      return leftMarkOf(model) ? 'left' : '';
    }
    const kept = mark.edit === undefined ? '' : `kept ${mark.edit}`;
    return refusal ? `refused ${refusal.text} ${kept}` : isOther ? 'edited' : kept;
  }

  /** A cell is executed: why it was not before does not matter any more. */
  forget(model: ICellModel): void {
    if (this._refusals.delete(model)) {
      this._label(model);
    }
  }

  /** What a cell shows now is what its source came to. */
  settle(model: ICellModel): void {
    const mark = markOf(model);
    if (mark) {
      const source = model.sharedModel.getSource();
      this._sign(model, { ...(mark.edit === source ? without(mark, 'edit', 'reason') : mark), base: source });
      this._label(model);
    }
  }

  /**
   * A cell was not executed. Where it never will be (`isGone`), the source comes back whose outputs it shows: a person
   * can undo that, and what they wrote is kept with the cell until they take it up.
   */
  refuse(model: ICellModel, text: string, isGone: boolean): void {
    const mark = markOf(model);
    if (mark && isGone && isAstray(model, mark) && mark.base !== undefined) {
      const edit = model.sharedModel.getSource();
      this._sign(model, { ...mark, edit, reason: text });
      model.sharedModel.updateSource(0, edit.length, mark.base);
    }
    this._refusals.set(model, { text });
    this._label(model);
  }

  private _strip(model: ICellModel, mark: Mark | null, refusal: Refusal | undefined): Strip | null {
    const trans = this._trans;
    const named = trans.__('Source of this cell');
    if (!mark) {
      const left = leftMarkOf(model);
      const words = left?.ran
        ? trans.__('You edited this cell of an earlier run, and ran it in the kernel of that run. Run All skips it.')
        : trans.__('You edited this cell of a run, and never ran it. Run All skips it.');
      const buttons = [this._taking(model), this._throwing(model), ...this._opening(left)];
      return new Strip(named, words, buttons, 'rlm-strip-left');
    }
    if (!refusal && mark.edit === undefined) {
      const words = trans.__('Edited, and not run: the output is that of the code before.');
      const buttons = [...this._puttingBack(model, mark), this._copying(model, () => model.sharedModel.getSource())];
      return new Strip(named, words, buttons, 'rlm-strip-edited');
    }
    const buttons = [
      ...this._editing(model, mark),
      this._copying(model, () => mark.edit ?? model.sharedModel.getSource()),
      ...(isAstray(model, mark) ? this._puttingBack(model, mark) : []),
      ...this._opening(mark)
    ];
    const whose = isEdited(model, mark)
      ? trans.__('This is what you ran in the kernel of the run.')
      : trans.__('This is the code that the run executed.');
    const words = refusal?.text ?? whose;
    const strip = new Strip(named, words, buttons, 'rlm-strip-refused');
    if (this._refusals.has(model)) {
      strip.node.setAttribute('role', 'alert'); // it has happened just now
    }
    if (mark.edit !== undefined) {
      strip.quote(trans.__('What you wrote, which was not run:'), mark.edit);
    }
    return strip;
  }

  private _opening(mark: Mark | null): StripButton[] {
    const act = mark && this._record(mark);
    const caption = this._trans.__("Open the run's own notebook, where its cells can be executed again");
    return act ? [{ label: this._trans.__('Open Run'), caption, name: 'rlm-edit-open', act }] : [];
  }

  private _taking(model: ICellModel): StripButton {
    return {
      label: this._trans.__('Make It My Cell'),
      caption: this._trans.__('It becomes a cell of this notebook like any other, and runs with it'),
      name: 'rlm-edit-take',
      act: () => this._writer.giveAway(model)
    };
  }

  private _throwing(model: ICellModel): StripButton {
    return {
      label: this._trans.__('Discard'),
      caption: this._trans.__('Remove this cell; this can be undone'),
      name: 'rlm-edit-throw',
      act: () => this._writer.discard(model)
    };
  }

  private _copying(model: ICellModel, source: () => string): StripButton {
    return {
      label: this._trans.__('Copy to My Cells'),
      caption: this._trans.__('Put what you wrote into a cell of your own, below those of the run'),
      name: 'rlm-edit-copy',
      act: () => {
        this._writer.copy(model, copied(model, source(), this._trans));
        this._drop(model); // it stands in that cell now
      }
    };
  }

  /** Where the run's source came back: what a person wrote can be written on. */
  private _editing(model: ICellModel, { edit }: Mark): StripButton[] {
    if (edit === undefined) {
      return [];
    }
    const act = (): void => {
      this._drop(model);
      model.sharedModel.updateSource(0, model.sharedModel.getSource().length, edit);
      this._follow(model);
      this._writer.widget(model.id)?.editor?.focus();
    };
    const caption = this._trans.__('Bring what you wrote back into the cell');
    const forgetting = {
      label: this._trans.__('Discard'),
      caption: this._trans.__('Forget what you wrote: it stands in no cell'),
      name: 'rlm-edit-discard',
      act: () => this._drop(model)
    };
    return [{ label: this._trans.__('Edit Again'), caption, name: 'rlm-edit-again', act }, forgetting];
  }

  /** What was written and not run is taken up, or let go. */
  private _drop(model: ICellModel): void {
    const mark = markOf(model);
    this._refusals.delete(model);
    if (mark?.edit !== undefined) {
      this._sign(model, without(mark, 'edit', 'reason'));
      this._label(model);
    }
  }

  private _puttingBack(model: ICellModel, { base }: Mark): StripButton[] {
    if (base === undefined) {
      return [];
    }
    const act = (): void => {
      this._refusals.delete(model);
      model.sharedModel.updateSource(0, model.sharedModel.getSource().length, base);
      this._follow(model);
    };
    const caption = this._trans.__('Bring back the code whose output this is');
    return [{ label: this._trans.__('Put Back'), caption, name: 'rlm-edit-back', act }];
  }

  /** The active cell is the one that a person edits. */
  private _watch(_: Notebook, active: Cell | null): void {
    this._unwatch();
    const mark = active && active.model.type === 'code' ? markOf(active.model) : null;
    if (active && mark) {
      this._active = active.model;
      this._before = isEdited(active.model, mark) ? undefined : active.model.sharedModel.getSource();
      active.model.sharedModel.changed.connect(this._changed, this);
    }
  }

  private _unwatch(): void {
    this._active?.sharedModel.changed.disconnect(this._changed, this);
    this._active = null;
  }

  private _changed(_: unknown, change: Change): void {
    const model = this._active;
    if (model && change.sourceChange) {
      // not within the change itself
      void Promise.resolve().then(() => this._follow(model));
    }
  }

  /** Remember, with the first change, which source the outputs belong to. */
  private _follow(model: ICellModel): void {
    const mark = this._isDisposed ? null : markOf(model);
    if (!mark || !isDone(mark.status as never)) {
      return;
    }
    const isOther = isEdited(model, mark);
    if (isOther && mark.base === undefined && model === this._active && this._before !== undefined) {
      this._sign(model, { ...mark, base: this._before });
    } else if (!isOther && mark.base !== undefined && !mark.by_hand) {
      this._sign(model, without(mark, 'base'));
    } else if (!isOther) {
      this._before = model.sharedModel.getSource(); // the run has written on
    }
    this._label(model);
  }

  private _sign(model: ICellModel, mark: Mark): void {
    this._panel.content.model?.sharedModel.transact(() => model.setMetadata('rlm', mark as never), false);
  }

  private _label(model: ICellModel): void {
    const widget = this._writer.widget(model.id);
    if (widget) {
      this.label(widget);
    }
  }

  private readonly _refusals = new WeakMap<ICellModel, Refusal>();
  private readonly _strips = new WeakMap<Cell, { state: string; strip: Strip }>();
  private _active: ICellModel | null = null;
  /** Its source, as its outputs belong to it. */
  private _before: string | undefined;
  private _isDisposed = false;
}

function without(mark: Mark, ...names: ('base' | 'edit' | 'reason')[]): Mark {
  return Object.fromEntries(Object.entries(mark).filter(([key]) => !names.some(name => name === key))) as Mark;
}
