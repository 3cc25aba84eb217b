/** Markdown of runs that is cut and pasted: Lab keeps the ids of code alone, and a run knows its cells by them. */

import { MarkdownCell } from '@jupyterlab/cells';
import type { ICellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import { pastedMarkOf } from '../model/marks';
import { LIVE_ID } from '../protocol/messages';

/** From now on, what was cut and is pasted belongs to its run as before; what was copied is a person's own. */
export function takeBackCut({ content }: NotebookPanel): void {
  content.model?.cells.changed.connect((_, { newValues }) => {
    // Lab notes that it has pasted once the cells are there
    const cut = content.lastClipboardInteraction === 'cut' ? newValues.filter(isMarkdown) : [];
    if (cut.length) {
      // not within the change itself, and in one step with it when it is undone
      void Promise.resolve().then(() => takeBack(content, cut));
    }
  });
}

function isMarkdown(model: ICellModel): boolean {
  return model.type === 'markdown' && pastedMarkOf(model) !== null;
}

function takeBack(content: NotebookPanel['content'], cut: readonly ICellModel[]): void {
  const shared = content.model?.sharedModel;
  const active = content.activeCellIndex;
  for (const model of cut) {
    const id = pastedMarkOf(model)?.cell ?? '';
    const ids = shared?.cells.map(cell => cell.getId()) ?? [];
    const place = ids.indexOf(model.id);
    if (!shared || place < 0 || !LIVE_ID.test(id) || ids.includes(id)) {
      continue;
    }
    const cell = { ...model.toJSON(), id };
    shared.transact(() => {
      shared.deleteCell(place);
      shared.insertCell(place, cell as never);
    });
    const widget = content.widgets[place];
    if (widget instanceof MarkdownCell) {
      widget.rendered = true;
    }
  }
  content.activeCellIndex = active;
}
