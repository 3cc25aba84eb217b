/** Below a cell that waits for approval: that it does, and the two things that can be done about it. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { Strip } from './strip';

export class Proposal extends Strip {
  /** @param cellId the cell that waits. */
  constructor(
    readonly cellId: string,
    approve: () => void,
    refuse: () => void,
    trans: TranslationBundle
  ) {
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
    const words = trans.__('Not run yet. You can edit it first.');
    super(trans.__('A cell waits for your approval'), words, buttons, 'rlm-proposal');
  }
}
