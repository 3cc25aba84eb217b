/** What people ask for, over a line that loses messages: against the conversation that the kernel is tested with. */

import { readFileSync } from 'fs';
import { join } from 'path';

import { Asks, REPEAT_MILLISECONDS } from '../src/protocol/requests';
import type { Asked } from '../src/protocol/messages';
import { NOTHING } from '../src/model/run';

const recorded = JSON.parse(
  readFileSync(join(__dirname, '..', '..', 'tests', 'support', 'protocol.json'), 'utf-8')
) as { asks: Asked[]; heard_after: Record<string, number> };
const { page } = recorded.asks[0];

function heard(n: number): typeof NOTHING {
  return { ...NOTHING, heard: { [page]: n, other: 99 } };
}

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

test('what the kernel is tested with is what a page says', () => {
  const said: Asked[] = [];
  const asks = new Asks(message => said.push(message), page);
  asks.greet();
  asks.ask({ type: 'note', text: 'look at chapter 3' });
  asks.ask({ type: 'pause' });
  jest.advanceTimersByTime(REPEAT_MILLISECONDS);
  expect(said.length).toBe(4);
  asks.hear(heard(recorded.heard_after['3']));
  asks.ask({ type: 'limit', name: 'max_cost', value: 1.5 });
  asks.ask({ type: 'export', form: 'html' });
  asks.hear(heard(recorded.heard_after['5']));
  jest.advanceTimersByTime(REPEAT_MILLISECONDS);
  expect(said).toEqual(recorded.asks);
});

test('it is said until it is heard, ever more seldom, and then no more', () => {
  const said: Asked[] = [];
  const asks = new Asks(message => said.push(message), page);
  asks.ask({ type: 'stop' });
  jest.advanceTimersByTime(60_000);
  expect(said.length).toBeGreaterThan(5);
  expect(said.length).toBeLessThan(15);
  const before = said.length;
  asks.hear({ ...NOTHING, heard: { other: 7 } }); // another page's
  expect(asks.unheard.length).toBe(1);
  asks.hear(heard(1));
  jest.advanceTimersByTime(600_000);
  expect(said.length).toBe(before);
});

test('a page that nobody hears stops greeting', () => {
  const said: Asked[] = [];
  const asks = new Asks(message => said.push(message), page);
  asks.greet();
  jest.advanceTimersByTime(600_000);
  expect(said.length).toBeGreaterThan(1);
  expect(said.length).toBeLessThan(8);
});

test('what was not heard when the run is over is given back, and an export is said on in its place', () => {
  const said: Asked[] = [];
  const asks = new Asks(message => said.push(message), page);
  asks.ask({ type: 'note', text: 'too late' });
  asks.ask({ type: 'export', form: 'jsonl' });
  expect(asks.drop(ask => ask.type === 'export')).toEqual([{ type: 'note', text: 'too late', n: 1 }]);
  jest.advanceTimersByTime(REPEAT_MILLISECONDS);
  expect(said[said.length - 1].asks).toEqual([
    { type: 'nothing', n: 1 },
    { type: 'export', form: 'jsonl', n: 2 }
  ]);
  expect(asks.drop()).toEqual([{ type: 'export', form: 'jsonl', n: 2 }]);
  const before = said.length;
  jest.advanceTimersByTime(600_000);
  expect(said.length).toBe(before);
});

test('a page that is loaded again has another name', () => {
  const pages = Array.from({ length: 50 }, () => new Asks(() => undefined).page);
  expect(new Set(pages).size).toBe(50);
});
