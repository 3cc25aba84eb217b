/** Where live cells are put, also when those around them come later, or never. */

import { spotOf } from '../src/cells/position';

const RUN = { parent: 'asked', order: ['a', 'b', 'c', 'd'] };

/** The place of `id` in a notebook of these cells. */
function placed(id: string, after: string | null, notebook: string[], marked: string[] = []): number {
  const index = (other: string): number => notebook.indexOf(other);
  return spotOf({ ...RUN, id, after, marked, length: notebook.length }, index);
}

test('the first cell stands right below the one that asked, a later one below the one before it', () => {
  expect(placed('a', null, ['mine', 'asked', 'others'])).toBe(2);
  expect(placed('b', 'a', ['asked', 'a', 'others'])).toBe(2);
});

test('a cell whose predecessor is missing stands above those that came before it', () => {
  expect(placed('b', 'a', ['asked', 'd', 'others'])).toBe(1);
  expect(placed('c', 'b', ['asked', 'a', 'd', 'others'])).toBe(2);
  expect(placed('a', 'lost', ['asked', 'b', 'others'])).toBe(1);
});

test('without a neighbour it stands below the last cell of the run that is marked, known or not', () => {
  expect(placed('d', 'c', ['asked', 'a', 'early', 'others'], ['a', 'early'])).toBe(3);
  expect(placed('d', 'c', ['asked', 'others'])).toBe(1);
});

test('it goes to the end where the cell that asked is gone, too', () => {
  expect(placed('a', null, ['mine', 'others'])).toBe(2);
  expect(placed('d', 'c', ['mine', 'others'])).toBe(2);
});
