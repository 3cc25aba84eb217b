/** What a live cell says of itself in its metadata, its prompt and its node. */

import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookModel } from '@jupyterlab/notebook';
import { JSONExt } from '@lumino/coreutils';
import type { ReadonlyPartialJSONValue } from '@lumino/coreutils';

import { markFor, timesOf } from '../model/marks';
import { digest } from '../model/run';
import type { RunModel } from '../model/run';
import type { LiveCell } from '../protocol/messages';

/** Say in a cell what it is and how far it is. */
export function sign(
  notebook: INotebookModel['sharedModel'] | undefined,
  model: ICellModel,
  run: RunModel,
  cell: LiveCell,
  widget: Cell | undefined
): void {
    const said = {
      rlm: { ...markFor(run, cell), written: digest(model.sharedModel.getSource()) },
      ...timesOf(cell)
    };
    const news = Object.entries(said).filter(
      ([key, value]) => !JSONExt.deepEqual((model.getMetadata(key) ?? null) as ReadonlyPartialJSONValue, value as never)
    );
    if (news.length) {
      notebook?.transact(() => news.forEach(([key, value]) => model.setMetadata(key, value)), false);
    }
    if (model.type === 'code') {
      const code = model as ICodeCellModel;
      const shared = code.sharedModel as { executionState?: string };
      // Lab shows `[*]` by this
      const state = cell.status === 'running' ? 'running' : 'idle';
      if (shared.executionState !== state) {
        notebook?.transact(() => (shared.executionState = state), false);
      }
    }
    if (widget) {
      widget.node.dataset.rlmStatus = cell.status;
    }
  }

