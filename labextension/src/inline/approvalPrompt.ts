/** Below a cell: that it, or a call of a tool that it makes, waits for approval, and what can be done about it. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { Strip } from './strip';

export class Proposal extends Strip {
  /**
   * @param about the id of the cell that waits.
   * @param decide `undo`: the cell before it can be undone.
   * @param noUndo why the cell before it can't be undone; empty: it can, or there is none.
   */
  constructor(
    readonly about: string,
    decide: { approve(): void; refuse(): void; undo: (() => void) | null },
    noUndo: string,
    trans: TranslationBundle
  ) {
    const { approve, refuse, undo } = decide;
    const buttons = [
      {
        label: trans.__('Run'),
        caption: trans.__('Run this cell, as it stands here now'),
        name: 'rlm-decide-run',
        act: approve
      },
      {
        label: trans.__('Refuse…'),
        caption: trans.__('Do not run this cell, and say why'),
        name: 'rlm-decide-refuse',
        act: refuse
      }
    ];
    if (undo) {
      buttons.push({
        label: trans.__('Undo Last Cell…'),
        caption: trans.__('Take the kernel back to before the last cell; this one is not run'),
        name: 'rlm-decide-undo',
        act: undo
      });
    }
    const waits = trans.__('Not run yet. It runs as it stands here, edited or not.');
    const words = noUndo ? `${waits} ${trans.__('The cell before it can’t be undone: %1.', noUndo)}` : waits;
    super(trans.__('A cell waits for your approval'), words, buttons, 'rlm-proposal');
  }
}

/** What decides about a call. */
interface Decide {
  /** With `all`, further calls of the same tool are made, too. */
  approve(all: boolean): void;
  refuse(): void;
}

export class CallProposal extends Strip {
  /** The id of the call that waits. */
  readonly about: string;

  constructor(call: { id: string; tool: string; text: string }, decide: Decide, trans: TranslationBundle) {
    const buttons = [
      {
        label: trans.__('Call'),
        caption: trans.__('Make this call'),
        name: 'rlm-decide-call',
        act: () => decide.approve(false)
      },
      {
        label: trans.__('Call All of %1', call.tool),
        caption: trans.__('Make this call and all further ones of this tool, without a question'),
        name: 'rlm-decide-all',
        act: () => decide.approve(true)
      },
      {
        label: trans.__('Refuse…'),
        caption: trans.__('Do not make this call, and say why'),
        name: 'rlm-decide-refuse',
        act: () => decide.refuse()
      }
    ];
    const words = trans.__('Not called yet.');
    super(trans.__('A call of a tool waits for your approval'), words, buttons, 'rlm-proposal');
    this.about = call.id;
    this.quote(trans.__('The cell calls a tool:'), call.text);
  }
}
