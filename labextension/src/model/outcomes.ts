/** Why a run ended, in words: those that the kernel uses in text (`rlm_jupyter/types/endings.py`). */

import type { TranslationBundle } from '@jupyterlab/translation';

/**
 * Say how a run ended.
 *
 * @param outcome - Its stop reason, or how the page lost it (`cut`, `closed`, `saved`).
 * @param message - Of its last record; where it is the reason itself, it stands for the words.
 */
export function outcomeWords(outcome: string | null, message: string, trans: TranslationBundle): string {
  switch (outcome) {
    case 'answered':
      return trans.__('Answered');
    case 'terminated':
      return trans.__('Ended by its termination policy');
    case 'iterations':
      return trans.__('Stopped: iteration limit reached');
    case 'errors':
      return trans.__('Stopped: too many iterations failed in a row');
    case 'tokens':
      return trans.__('Stopped: token limit reached');
    case 'cost':
      return trans.__('Stopped: cost limit reached');
    case 'seconds':
      return trans.__('Stopped: time limit reached');
    case 'subcalls':
      return trans.__('Stopped: sub-call limit reached');
    case 'context_window':
      return trans.__('Stopped: the conversation does not fit the model’s window');
    case 'no_progress':
      return message ? trans.__('Stopped: %1', message) : trans.__('Stopped: the model repeated itself');
    case 'cancelled':
      return message ? trans.__('Stopped: %1', message) : trans.__('Stopped by you');
    case 'kernel_died':
      return trans.__('The kernel died too often');
    case 'no_agreement':
      return trans.__('The samples do not agree');
    case 'answer_invalid':
      return trans.__('The answer or its files are not as they were asked for');
    case 'cut':
      return trans.__('The kernel went away');
    case 'closed':
      return trans.__('Not shown any further: the run goes on, and its notebook is saved');
    case 'saved':
      return trans.__('Saved while it was going on');
    default:
      return trans.__('Failed');
  }
}
