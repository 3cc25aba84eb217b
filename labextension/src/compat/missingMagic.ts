/** A cell asked with `%%rlm` in a kernel that does not know it: say what is missing. */

import { Notification } from '@jupyterlab/apputils';
import { NotebookActions } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

const NOT_FOUND = /magic (function )?`%%?rlm` not found/;

/** Whether a cell failed because its kernel has no `%rlm`. */
export function isUnknown(error: unknown): boolean {
  const { errorName, errorValue } = (error ?? {}) as { errorName?: unknown; errorValue?: unknown };
  return errorName === 'UsageError' && typeof errorValue === 'string' && NOT_FOUND.test(errorValue);
}

/** Listen to what is executed, in all notebooks. */
export function sayWhatIsMissing(trans: TranslationBundle): void {
  NotebookActions.executed.connect((_, { error }) => {
    if (isUnknown(error)) {
      Notification.warning(
        trans.__(
          'This kernel does not know %rlm. Run %load_ext rlm_jupyter first; where that fails, %pip install rlm_jupyter.'
        ),
        { autoClose: false }
      );
    }
  });
}
