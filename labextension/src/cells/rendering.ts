/** Draws the Markdown of live cells while it arrives. */

import { MarkdownCell } from '@jupyterlab/cells';
import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { LiveCell } from '../protocol/messages';

const RENDER_MILLISECONDS = 150;
/** Rendering takes the longer the more there is of it: then it is done less often. */
const RENDER_MILLISECONDS_PER_CHAR = 0.01;

export class Rendering {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _widget: (id: string) => Cell | undefined
  ) {}

  /** Draw Markdown, now and then while it arrives: by itself Lab waits until nothing comes any more. */
  render({ id, source }: Pick<LiveCell, 'id' | 'source'>): void {
    if (this._resting.has(id)) {
      this._resting.set(id, true);
      return;
    }
    const widget = this._widget(id);
    if (!(widget instanceof MarkdownCell)) {
      return;
    }
    widget.rendered = true;
    widget.update();
    this._resting.set(id, false);
    window.setTimeout(
      () => {
        const isDue = this._resting.get(id);
        const cell = this._resting.delete(id) && isDue ? this._widget(id)?.model : undefined;
        if (cell && !this._panel.isDisposed) {
          this.render({ id, source: cell.sharedModel.getSource() });
        }
      },
      RENDER_MILLISECONDS + RENDER_MILLISECONDS_PER_CHAR * source.length
    );
  }

  /** Cells that were rendered a moment ago, and whether they have become others since. */
  private readonly _resting = new Map<string, boolean>();
}
