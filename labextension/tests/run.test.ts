/** The model against the conversation that the kernel's side is tested with, whole and with losses. */

import { readFileSync } from 'fs';
import { join } from 'path';

import { isBatch } from '../src/protocol/messages';
import type { Batch, LiveCell, RunFacts } from '../src/protocol/messages';
import { digest, RunModel } from '../src/model/run';

const recorded = JSON.parse(
  readFileSync(join(__dirname, '..', '..', 'tests', 'support', 'protocol.json'), 'utf-8')
) as { messages: Batch[]; final: { cells: LiveCell[]; facts: RunFacts } };

function heard(messages: Batch[]): RunModel {
  const model = new RunModel(recorded.messages[0].run, 'the-cell');
  for (const message of structuredClone(messages)) {
    model.fold(message);
  }
  return model;
}

/** A cell, less where it was told to be: that may be told before a neighbour comes or goes. */
function bare(cell: LiveCell): Partial<LiveCell> {
  return { ...cell, after: undefined };
}

test('all messages are of the protocol', () => {
  expect(recorded.messages.every(isBatch)).toBe(true);
  expect(isBatch({ v: 2, run: 'a', seq: 0 })).toBe(false);
  expect(isBatch(null)).toBe(false);
});

test('the whole conversation gives what the kernel holds', () => {
  const model = heard(recorded.messages);
  expect(model.cells.map(bare)).toEqual(recorded.final.cells.map(bare));
  expect(model.facts).toEqual(recorded.final.facts);
  expect(model.missed).toBe(false);
  expect(model.isOver).toBe(true);
});

test('cells and their outputs grow before they are done', () => {
  const seen = new Set<string>();
  const model = new RunModel(recorded.messages[0].run, 'the-cell');
  for (const message of structuredClone(recorded.messages)) {
    model.fold(message);
    model.cells.forEach(cell => seen.add(`${cell.source}|${cell.outputs.length}|${cell.status}`));
  }
  expect(seen).toContain('print(len(c|0|writing');
  expect([...seen].some(state => state.endsWith('|1|running'))).toBe(true);
  expect([...seen].some(state => state.startsWith('1 / 0|0|proposed'))).toBe(true);
});

test.each(recorded.messages.slice(1, -1).map(message => message.seq))(
  'a conversation without message %i is known to be short of something, and a snapshot heals it',
  seq => {
    const model = heard(recorded.messages.filter(message => message.seq !== seq));
    expect(model.missed).toBe(true);
    const next = recorded.messages.length;
    model.fold({ v: 1, run: model.run, seq: next, snapshot: structuredClone(recorded.final) });
    expect(model.cells).toEqual(recorded.final.cells);
    expect(model.facts).toEqual(recorded.final.facts);
    expect(model.missed).toBe(false);
  }
);

test('a cell that came before what it stands below is moved once that is known', () => {
  const cells = recorded.final.cells;
  const model = new RunModel(recorded.messages[0].run, 'the-cell');
  const put = (seq: number, ...told: LiveCell[]): unknown =>
    model.fold({ v: 1, run: model.run, seq, items: structuredClone(told).map(cell => ({ item: 'done', cell })) });
  // a page that was reloaded hears of the third cell before the second
  put(7, cells[0], cells[3], cells[2]);
  expect(model.cells.map(({ id }) => id)).toEqual([cells[0].id, cells[3].id, cells[2].id]);
  const changes = model.fold({ v: 1, run: model.run, seq: 8, snapshot: structuredClone(recorded.final) });
  expect(model.cells.map(({ id }) => id)).toEqual(cells.map(({ id }) => id));
  expect(changes.flatMap(change => (change.kind === 'moved' ? change.cell.id : []))).toEqual([
    cells[2].id,
    cells[3].id
  ]);
  const again = model.fold({ v: 1, run: model.run, seq: 9, snapshot: structuredClone(recorded.final) });
  expect(again.some(({ kind }) => kind === 'moved')).toBe(false);
});

test('a snapshot that comes in parts, less what the page has, makes it whole', () => {
  const model = heard(recorded.messages.filter(message => message.seq !== 9));
  const { known } = model;
  expect(known.length).toBeGreaterThan(0);
  const seq = recorded.messages.length;
  const [first, ...rest] = structuredClone(recorded.final.cells).filter(cell => !known.includes(cell.id));
  const ids = recorded.final.cells.map(cell => cell.id);
  const last = { ...structuredClone(recorded.final), ids, cells: rest, since: seq };
  if (first) {
    model.fold({ v: 1, run: model.run, seq, items: [{ item: 'cell', cell: first }] });
  }
  model.fold({ v: 1, run: model.run, seq: seq + 1, snapshot: last });
  expect(model.missed).toBe(false);
  expect(model.cells.map(bare)).toEqual(recorded.final.cells.map(bare));
});

test('a snapshot of which a part was lost is asked for again', () => {
  const late = (since: number, cells: LiveCell[]): RunModel => {
    const model = heard(recorded.messages.slice(0, 3));
    const ids = recorded.final.cells.map(cell => cell.id);
    const snapshot = { ...structuredClone(recorded.final), ids, cells: structuredClone(cells), since };
    model.fold({ v: 1, run: model.run, seq: 52, snapshot });
    return model;
  };
  // parts 50 and 51 did not come: what the page holds of their cells may be old
  expect(late(50, recorded.final.cells).missed).toBe(true);
  expect(late(52, recorded.final.cells).missed).toBe(false);
  expect(late(52, recorded.final.cells.slice(4)).missed).toBe(true);
});

test('a page that comes late has every cell that was done after that', () => {
  const model = heard(recorded.messages.slice(8));
  // the line above them, 2, is told again when they are counted
  const before = ['rlm-0123abcd-1', 'rlm-0123abcd-4'];
  const whole = recorded.final.cells.filter(cell => !before.includes(cell.id));
  expect(model.cells.map(bare)).toEqual(whole.map(bare));
  expect(model.missed).toBe(true);
});

test('a message that comes twice, or for another run, changes nothing', () => {
  const model = heard(recorded.messages);
  expect(model.fold(recorded.messages[3])).toEqual([]);
  expect(model.fold({ ...recorded.messages[3], run: 'ffffffff', seq: 99 })).toEqual([]);
  expect(model.missed).toBe(false);
});

test('a kernel that goes away leaves no cell open', () => {
  const model = heard(recorded.messages.slice(0, 7));
  const changes = model.cut();
  expect(changes.some(change => change.kind === 'ended')).toBe(true);
  expect(model.facts.outcome).toBe('cut');
  expect(model.cells.map(cell => cell.status)).not.toContain('running');
  expect(model.cut()).toEqual([]);
});

test('a digest tells texts apart', () => {
  expect(digest('a')).toBe(digest('a'));
  expect(new Set(['', 'a', 'b', 'ab', 'ba', 'a\n'].map(digest)).size).toBe(6);
});

test('the clock is the kernel’s, stands still while a person is waited for, and when the kernel is gone', () => {
  jest.useFakeTimers({ now: 0 });
  const model = new RunModel('a', 'the-cell');
  const { facts } = recorded.final;
  let seq = 0;
  const tell = (phase: RunFacts['phase'], elapsed: number | null, seconds: number | null = null): void => {
    const item = { item: 'run' as const, facts: { ...facts, phase, seconds }, elapsed };
    model.fold({ v: 1, run: 'a', seq: seq++, items: [item] });
  };
  expect(model.seconds).toBeNull(); // nothing is heard yet
  model.fold({ v: 1, run: 'a', seq: seq++, parent: 'the-cell' });
  jest.advanceTimersByTime(2000);
  expect(model.seconds).toBe(2);
  tell('running', 5);
  jest.advanceTimersByTime(1000);
  expect(model.seconds).toBe(6);
  for (const phase of ['paused', 'proposed'] as const) {
    tell(phase, 6.5);
    jest.advanceTimersByTime(60_000);
    expect(model.seconds).toBe(6.5);
  }
  tell('writing', 6.6);
  jest.advanceTimersByTime(1000);
  expect(model.seconds).toBeCloseTo(7.6);
  // a page that comes while the run is paused
  const late = new RunModel('a', 'the-cell');
  const paused = { ...facts, phase: 'paused' as const, seconds: null };
  late.fold({ v: 1, run: 'a', seq: 9, snapshot: { cells: [], facts: paused, elapsed: 40 } });
  jest.advanceTimersByTime(5000);
  expect(late.seconds).toBe(40);
  const { seconds } = model;
  model.cut();
  jest.advanceTimersByTime(5000);
  expect(model.seconds).toBe(seconds);
  tell('ended', null, 9.25);
  expect(model.seconds).toBe(9.25);
  jest.useRealTimers();
});
