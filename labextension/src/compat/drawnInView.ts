/**
 * JupyterLab renders cells that have come while it is idle, and takes them out of the page in the next frame: those
 * that are out of view need not stand there. (Windowing "full", the default of 4.2; 4.6 does so still.) Where it has
 * drawn them in view in that very frame, they are gone until something makes it draw again.
 */

import type { Cell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';

/** Whenever Lab has taken a cell out, have it look once more which cells are in view. */
export function keepDrawn(notebook: Notebook, cell: Cell): void {
  cell.inViewportChanged.connect((_, isInView) => {
    if (!isInView && !notebook.isDisposed) {
      notebook.update();
    }
  });
}
