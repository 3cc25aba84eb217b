/** Long code of a run shows its first lines; a button below them shows the rest. The source stays whole. */

import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { addTo } from './strip';
import { isDone } from '../model/run';
import { markOf } from '../model/marks';
import type { LiveCell } from '../protocol/messages';

/** Code of more lines is folded. */
export const MOST_LINES = 30;
/** So many of its lines stay in view. */
const SHOWN_LINES = 20;
/** Among the parts of a code cell: below its header and its input, above its outputs. */
const BELOW_INPUT = 2;

export class LongCode {
  constructor(private readonly _trans: TranslationBundle) {}

  /** Fold, or unfold, the code of a cell that is done; one that is written or edited is shown whole. */
  label(widget: Cell): void {
    const { model } = widget;
    const mark = model.type === 'code' ? markOf(model) : null;
    const lines = mark && isDone(mark.status as LiveCell['status']) ? linesOf(model.sharedModel.getSource()) : 0;
    const known = this._buttons.get(widget);
    if (lines <= MOST_LINES) {
      known?.dispose();
      this._buttons.delete(widget);
      widget.removeClass('rlm-long');
      return;
    }
    if (known && !known.isDisposed) {
      known.say(lines);
      return;
    }
    const button = new FoldButton(widget, this._trans);
    button.say(lines);
    this._buttons.set(widget, button);
    addTo(widget, button, BELOW_INPUT);
  }

  private readonly _buttons = new WeakMap<Cell, FoldButton>();
}

class FoldButton extends Widget {
  constructor(
    private readonly _cell: Cell,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('rlm-fold-code');
    this._button.type = 'button';
    this._button.classList.add('rlm-button', 'rlm-fold-code-button');
    // keys on it are meant for it
    this._button.dataset.lmSuppressShortcuts = 'true';
    this._button.addEventListener('click', () => this._turn(!this._isFolded));
    this.node.append(this._button);
    // who edits it sees all of it
    _cell.node.addEventListener('focusin', this._unfold);
    this._turn(true);
  }

  override dispose(): void {
    this._cell.node.removeEventListener('focusin', this._unfold);
    super.dispose();
  }

  /** Say how much there is. */
  say(lines: number): void {
    this._lines = lines;
    this._turn(this._isFolded);
  }

  private readonly _unfold = (event: Event): void => {
    if (event.target instanceof Element && event.target.closest('.cm-content')) {
      this._turn(false);
    }
  };

  private _turn(isFolded: boolean): void {
    this._isFolded = isFolded;
    this._cell.toggleClass('rlm-long', isFolded);
    this._cell.node.style.setProperty('--rlm-shown-lines', `${SHOWN_LINES}`);
    this._button.textContent = isFolded
      ? this._trans.__('Show %1 more lines', this._lines - SHOWN_LINES)
      : this._trans.__('Show less');
    this._button.setAttribute('aria-expanded', `${!isFolded}`);
  }

  private readonly _button = document.createElement('button');
  private _isFolded = true;
  private _lines = 0;
}

function linesOf(source: string): number {
  return source.split('\n').length;
}
