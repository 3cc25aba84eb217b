/** Which cell a person goes on to: from one that asks to their own next one, from one that waits to the next. */

import type { ICellModel } from '@jupyterlab/cells';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook } from '@jupyterlab/notebook';

import { leftMarkOf, markOf } from '../model/marks';

/** Whether a cell belongs to a run of the cell `parent`, or is left over from one. */
function isOf(model: ICellModel, parent: string): boolean {
  return (markOf(model) ?? leftMarkOf(model))?.parent === parent;
}

/** Select the next cell of the person's own, where a live cell of `parent` is the active one; without one, add it. */
export function passLive(notebook: Notebook, parent: string): void {
  const { activeCell, activeCellIndex, widgets } = notebook;
  if (!activeCell || !isOf(activeCell.model, parent)) {
    return;
  }
  const next = widgets.findIndex((widget, place) => place > activeCellIndex && !isOf(widget.model, parent));
  if (next >= 0) {
    notebook.activeCellIndex = next;
    return;
  }
  // as Lab does below the last cell
  notebook.activeCellIndex = widgets.length - 1;
  NotebookActions.insertBelow(notebook);
  notebook.mode = 'edit';
}

/** Have a cell be the active one still, once Shift+Enter has gone on from it. */
export function stay(notebook: Notebook, cellId: string): void {
  const place = notebook.widgets.findIndex(widget => widget.model.id === cellId);
  if (place >= 0 && notebook.activeCellIndex !== place) {
    notebook.activeCellIndex = place;
    notebook.mode = 'command';
  }
}

/** Go on from one cell to another, where a person is still there. */
export function goOn(notebook: Notebook, from: string | undefined, to: string): void {
  const place = notebook.widgets.findIndex(widget => widget.model.id === to);
  if (place >= 0 && from !== undefined && notebook.activeCell?.model.id === from && notebook.mode === 'command') {
    notebook.activeCellIndex = place;
    void notebook.scrollToItem(place, 'smart');
  }
}

/** Do something that removes cells: where the keyboard was in the notebook, it is there afterwards. */
export function keepFocus(notebook: Notebook, act: () => void): void {
  const wasWithin = notebook.node.contains(document.activeElement);
  act();
  if (wasWithin && !notebook.node.contains(document.activeElement)) {
    notebook.activate();
  }
}
