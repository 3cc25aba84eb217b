/** What a person asked of a run is acknowledged: that it was sent, that the kernel has it, and no longer than that. */

import { Acknowledged, SHOWN_MILLISECONDS } from '../src/protocol/acknowledged';

const trans = {
  __: (text: string, ...values: unknown[]) => text.replace(/%(\d)/g, (_, n) => String(values[Number(n) - 1]))
} as never;
const NAMES = { max_iterations: 'Iterations', max_cost: 'US dollars' };
const RUNNING = { phase: 'running' as const };

test('a pause is said to come until it is there', () => {
  const said = new Acknowledged(trans);
  expect(said.words(RUNNING, NAMES)).toBe('');
  said.ask(1, { type: 'pause' });
  expect(said.words(RUNNING, NAMES)).toBe('Pausing…');
  said.hear(1, 0);
  expect(said.words(RUNNING, NAMES, 10 * SHOWN_MILLISECONDS)).toBe('Pauses before the next reply');
  expect(said.words({ phase: 'paused' }, NAMES)).toBe('');
});

test('a note and limits are said to be taken, for a while', () => {
  const said = new Acknowledged(trans);
  said.ask(1, { type: 'note', text: 'look there' });
  expect(said.words(RUNNING, NAMES)).toBe('Message sent…');
  said.hear(1, 0);
  expect(said.words(RUNNING, NAMES, 1)).toBe('Message received: the model reads it with the next outputs');
  expect(said.words(RUNNING, NAMES, SHOWN_MILLISECONDS)).toBe('');
  said.ask(2, { type: 'limit', name: 'max_iterations', value: 40 });
  said.ask(3, { type: 'limit', name: 'max_cost', value: null });
  said.hear(3, 0);
  expect(said.words(RUNNING, NAMES, 1)).toBe('Limit set: Iterations: 40 · Limit set: US dollars: no limit');
  said.refuse(3);
  expect(said.words(RUNNING, NAMES, 1)).toBe('Limit set: Iterations: 40');
  expect(said.words({ phase: 'ended' }, NAMES, 1)).toBe('');
});

test('what is not for the run is not acknowledged here', () => {
  const said = new Acknowledged(trans);
  said.ask(1, { type: 'export', form: 'html' });
  said.ask(2, { type: 'child', child: 'a', open: true });
  expect(said.words(RUNNING, NAMES)).toBe('');
});
