/** Which runs' cells are hidden; it stands in the cell that asked, so that a notebook comes back as it was left. */

import type { NotebookPanel } from '@jupyterlab/notebook';

import type { CellWriter } from './writer';

const KEY = 'rlm_folded';

export class Folds {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _writer: CellWriter
  ) {}

  /** Whether the cells of this one are hidden. */
  has(parent: string): boolean {
    return this._folded.has(parent);
  }

  /** Hide what was hidden when the notebook was saved. */
  restore(): void {
    for (const model of this._panel.content.model?.cells ?? []) {
      if (model.getMetadata(KEY) === true) {
        this._folded.add(model.id);
      }
    }
    for (const parent of this._folded) {
      this.show(parent, false);
    }
  }

  /** Hide, or show, the live cells of a cell in this view. */
  show(parent: string, isShown: boolean): void {
    if (isShown) {
      this._folded.delete(parent);
    } else {
      this._folded.add(parent);
    }
    for (const { model, mark } of this._writer.marked()) {
      if (mark.parent === parent) {
        this._writer.widget(model.id)?.setHidden(!isShown);
      }
    }
    this._panel.content.update();
  }

  /** Note it in the notebook; not as something that one would undo. */
  keep(parent: string): void {
    const notebook = this._panel.content.model;
    const model = this._writer.widget(parent)?.model;
    if (notebook && model && (model.getMetadata(KEY) === true) !== this.has(parent)) {
      notebook.sharedModel.transact(() => {
        if (this.has(parent)) {
          model.setMetadata(KEY, true);
        } else {
          model.deleteMetadata(KEY);
        }
      }, false);
    }
  }

  private readonly _folded = new Set<string>();
}
