/** A cell as it is put into a notebook, and how many are at once. */

import type { LiveCell } from '../protocol/messages';
import { markFor, TAGS, timesOf } from '../model/marks';
import { isDone } from '../model/run';
import type { RunModel } from '../model/run';

/** Lab draws in one task all cells that came in one: there is little in them, or it is one cell alone. */
const MOST_AT_ONCE = 2;
const MOST_CHARS_AT_ONCE = 4000;

/** A cell, and those right below it, which can be put in with it where `isNew` holds. */
export function insertedTogether(
  first: LiveCell,
  others: Iterable<LiveCell>,
  isNew: (cell: LiveCell) => boolean
): LiveCell[] {
  const cells = [first];
  let room = MOST_CHARS_AT_ONCE - charsOf(first);
  for (const cell of others) {
    if (cells.length >= MOST_AT_ONCE || room < 0) {
      break;
    }
    if (cell.after === cells[cells.length - 1].id && isNew(cell)) {
      room -= charsOf(cell);
      if (room >= 0) {
        cells.push(cell);
      }
    }
  }
  return cells;
}

/** A cell as nbformat writes it. */
export function cellJson(run: RunModel, cell: LiveCell): Record<string, unknown> {
  const isCode = cell.type === 'code';
  return {
    cell_type: cell.type,
    id: cell.id,
    source: cell.source,
    metadata: {
      tags: [...TAGS],
      rlm: markFor(run, cell),
      ...timesOf(cell),
      // never on Markdown: a server would take it for a part of the notebook, and lose the signature
      ...(isCode ? { trusted: true } : {})
    },
    // what is there from the beginning, Lab draws once
    ...(isCode && isDone(cell.status) ? { outputs: cell.outputs } : {})
  };
}

/** How much of a cell there is to draw. */
function charsOf(cell: LiveCell): number {
  const outputs = cell.outputs.map(output => output.text?.length ?? JSON.stringify(output).length);
  return outputs.reduce((sum, chars) => sum + chars, cell.source.length);
}
