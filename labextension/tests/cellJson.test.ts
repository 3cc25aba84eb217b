import type { LiveCell } from '../src/protocol/messages';
import { insertedTogether, cellJson } from '../src/cells/cellJson';
import { RunModel } from '../src/model/run';

function cell(id: number, chars: number, status: LiveCell['status'] = 'ok'): LiveCell {
  return {
    id: `rlm-00000000-${id}`,
    type: 'code',
    after: id ? `rlm-00000000-${id - 1}` : null,
    source: 'x = 1',
    outputs: [{ output_type: 'stream', name: 'stdout', text: 'x'.repeat(chars) }],
    execution_count: 7,
    status,
    facts: { role: 'code', iteration: 1, block: 0 }
  };
}

test('small cells that lie one below the other are put in together, a large one alone', () => {
  const ids = (cells: LiveCell[]): string[] => cells.map(({ id }) => id.slice(-1));
  const any = (): boolean => true;
  expect(ids(insertedTogether(cell(0, 10), [cell(1, 10), cell(2, 10)], any))).toEqual(['0', '1']);
  expect(ids(insertedTogether(cell(0, 10), [cell(1, 100_000)], any))).toEqual(['0']);
  expect(ids(insertedTogether(cell(0, 100_000), [cell(1, 10)], any))).toEqual(['0']);
  expect(ids(insertedTogether(cell(0, 10), [cell(5, 10)], any))).toEqual(['0']);
  expect(ids(insertedTogether(cell(0, 10), [cell(1, 10)], () => false))).toEqual(['0']);
});

test('a cell that is done is put in with its outputs; one that runs gets them as they come', () => {
  const run = new RunModel('00000000', 'user-1');
  const done = cellJson(run, cell(0, 3));
  expect(done).toMatchObject({ outputs: cell(0, 3).outputs, metadata: { trusted: true, rlm: { count: 7 } } });
  // it would be the number of one of the person's own cells
  expect(done).not.toHaveProperty('execution_count');
  expect(cellJson(run, cell(0, 3, 'running'))).not.toHaveProperty('outputs');
  const prose: LiveCell = { ...cell(0, 0), type: 'markdown', outputs: [] };
  expect(cellJson(run, prose).metadata).not.toHaveProperty('trusted');
});
