/** Below a cell that waits for approval: that it does, and the two things that can be done about it. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

export class Proposal extends Widget {
  /** @param cellId the cell that waits. */
  constructor(
    readonly cellId: string,
    approve: () => void,
    refuse: () => void,
    trans: TranslationBundle
  ) {
    super();
    this.addClass('rlm-proposal');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', trans.__('A cell waits for your approval'));
    const words = document.createElement('span');
    words.textContent = trans.__('Not run yet. You can edit it first.');
    this.node.append(
      button(trans.__('Run It'), trans.__('Run this cell, as it stands here now'), 'rlm-decide-run', approve),
      button(trans.__('Refuse…'), trans.__('Do not run this cell, and say why'), 'rlm-decide-refuse', refuse),
      words
    );
  }
}

function button(label: string, caption: string, className: string, act: () => void): HTMLButtonElement {
  const node = document.createElement('button');
  node.type = 'button';
  node.className = `rlm-button ${className}`;
  node.textContent = label;
  node.title = caption;
  node.setAttribute('aria-label', `${label}: ${caption}`);
  // keys on it are meant for it
  node.dataset.lmSuppressShortcuts = 'true';
  node.addEventListener('click', act);
  return node;
}
