/** The cell that asked, where Lab has lost its outputs: the page was loaded, or the cell moved, in mid-run. */

import { CodeCell } from '@jupyterlab/cells';
import type { Cell } from '@jupyterlab/cells';

import type { Shown } from '../protocol/messages';
import { finishOutputs } from './outputs';

/** Whether a cell is executed, or was, and this page has not heard it. */
export function isUnheard(cell: Cell | undefined): cell is CodeCell {
  if (!(cell instanceof CodeCell) || cell.model.executionCount !== null) {
    return false;
  }
  // where this page has executed it, its area hears the reply
  return !(cell.outputArea.future as unknown);
}

/** Show whether it is still executed. */
export function showUnderWay(cell: Cell | undefined, isUnderWay: boolean): void {
  if (isUnheard(cell)) {
    void cell.ready.then(() => {
      if (isUnheard(cell) && !cell.isDisposed) {
        cell.setPrompt(isUnderWay ? '*' : '');
      }
    });
  }
}

/** Let it show what it shows in the end. */
export function finish(cell: Cell | undefined, shown: Shown): void {
  if (cell instanceof CodeCell) {
    finishOutputs(cell.model.outputs, shown.outputs);
    cell.model.trusted = true; // as when it is executed: they come from the kernel
    cell.model.executionCount ??= shown.execution_count;
  }
}
