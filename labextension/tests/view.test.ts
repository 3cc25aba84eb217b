/** What of the side panel and the dialog needs no page: limits, filter, where files are. */

import { Filter } from '../src/model/filter';
import { childOf, notebookOf, served } from '../src/actions/openFile';
import { readLimits } from '../src/inline/limits';
import { NOTHING, RunModel } from '../src/model/run';
import { promptOf, savedRuns } from '../src/model/saved';
import { isUnknown } from '../src/compat/missingMagic';
import type { Mark } from '../src/model/marks';
import { branched } from '../src/notebook/branch';

jest.mock('@jupyterlab/apputils', () => ({}));
jest.mock('@jupyterlab/notebook', () => ({}));
jest.mock('@lumino/widgets', () => ({ Widget: Object }));
jest.mock('@jupyterlab/coreutils', () => {
  const { posix } = jest.requireActual<typeof import('path')>('path');
  const plain = (path: string): string => (path === '.' ? '' : path.replace(/^\//, ''));
  return {
    PathExt: {
      join: (...parts: string[]) => plain(posix.join(...parts)),
      dirname: (path: string) => plain(posix.dirname(path))
    }
  };
});

const trans = {
  __: (text: string, ...values: unknown[]) => text.replace(/%(\d)/g, (_, n) => String(values[Number(n) - 1]))
} as never;

test('limits are read, or it is said in a line what is wrong', () => {
  const now = { max_iterations: 30, max_subcalls: 1000, max_seconds: 60 };
  const used = { max_iterations: 4, max_seconds: 12.3 };
  const as = (typed: Record<string, string>): unknown => readLimits(typed, now, used, trans);
  expect(as({ max_iterations: ' 40 ', max_cost: '', max_seconds: '' })).toEqual({
    max_iterations: 40,
    max_seconds: null
  });
  expect(as({ max_iterations: '30', max_cost: '0.25' })).toEqual({ max_cost: 0.25 });
  expect(as({ max_subcalls: '0' })).toEqual({ max_subcalls: 0 });
  expect(as({ max_iterations: '' })).toBe('Iterations: a number is needed here.');
  expect(as({ max_cost: '1,5 €' })).toBe('US dollars: “1,5 €” is not a number.');
  expect(as({ max_tokens: '1.5' })).toBe('Tokens: a whole number is needed.');
  expect(as({ max_cost: '0' })).toBe('US dollars: it must be more than zero.');
  expect(as({ max_seconds: '-1' })).toBe('Seconds: it must be more than zero.');
  expect(as({ max_iterations: '4' })).toEqual({ max_iterations: 4 });
  expect(as({ max_iterations: '3' })).toBe('Iterations: 4 are used already. To end the run now, use Stop.');
});

test('a filter finds words wherever they stand, and failures', () => {
  const cell = { source: 'Look for the\nNeedle', status: 'ok' } as never;
  const failed = { source: '1 / 0', status: 'error' } as never;
  expect(new Filter('needle look').cell(cell)).toBe(true);
  expect(new Filter('needle there').cell(cell)).toBe(false);
  expect(new Filter('', true).cell(cell)).toBe(false);
  expect(new Filter('', true).cell(failed)).toBe(true);
  expect(new Filter(' ').isOn).toBe(false);
  const run = (outcome: string): never => ({ facts: { prompt: 'Which city?', outcome } }) as never;
  expect(new Filter('', true).run(run('failed'))).toBe(true);
  expect(new Filter('town', true).run(run('failed'))).toBe(false);
  expect(new Filter('', true).run(run('iterations'))).toBe(false);
});

test('a file is opened where the server shows it, and nowhere else', () => {
  const place = (beside: string | null): { path: string; beside: string | null } => ({ path: '/x', beside });
  expect(served('notes/a.ipynb', place('rlm_runs/b.ipynb'))).toBe('notes/rlm_runs/b.ipynb');
  expect(served('notes/a.ipynb', place('../b.ipynb'))).toBe('b.ipynb');
  expect(served('a.ipynb', place('b.ipynb'))).toBe('b.ipynb');
  expect(served('notes/a.ipynb', place('../../b.ipynb'))).toBeNull();
  expect(served('notes/a.ipynb', place(null))).toBeNull();
});

test("a child's notebook is beside that of its run", () => {
  const run = new RunModel('01234567', 'user-1');
  run.facts = { ...NOTHING, file: { path: '/home/me/rlm_runs/a.ipynb', beside: 'rlm_runs/a.ipynb' } };
  expect(childOf(run, '0a1b2c3d-who-abcdef')).toEqual({
    path: '/home/me/rlm_runs/a.rlm/children/0a1b2c3d-who.ipynb',
    beside: 'rlm_runs/a.rlm/children/0a1b2c3d-who.ipynb'
  });
  expect(childOf(run, 'unsaved')).toBeNull();
  run.isSaved = true;
  run.facts = { ...NOTHING, outcome: 'saved', run_id: '20260102-030405-who-abcdef' };
  expect(notebookOf(run)?.beside).toBe('rlm_runs/20260102-030405-who.ipynb');
  run.facts = { ...NOTHING, outcome: 'saved', run_id: 'unsaved' };
  expect(notebookOf(run)).toBeNull();
});

test('what a cell asks is found in its source', () => {
  expect(promptOf('%%rlm -c a\nWho\n is  it?')).toBe('Who is it?');
  expect(promptOf('%rlm -c a Who is it?')).toBe('%rlm -c a Who is it?');
});

test('a kernel without the magic is known by what it answers', () => {
  const unknown = (errorName: string, errorValue: unknown): boolean => isUnknown({ errorName, errorValue });
  expect(unknown('UsageError', 'Cell magic `%%rlm` not found.')).toBe(true);
  expect(unknown('UsageError', 'Line magic function `%rlm` not found.')).toBe(true);
  expect(unknown('UsageError', 'Cell magic `%%sql` not found.')).toBe(false);
  expect(unknown('NameError', 'rlm')).toBe(false);
  expect(isUnknown(null)).toBe(false);
});

test('saved runs are in the order in which they began, wherever their cells stand', () => {
  const cell = (run: string, runId: string): unknown => ({
    id: `rlm-${run}-1`,
    type: 'markdown',
    sharedModel: { getSource: () => '' },
    getMetadata: () => ({ v: 1, run, parent: 'asks', run_id: runId, role: 'prose', iteration: 1, status: 'ok' })
  });
  const cells = [
    cell('00000001', '20260102-101500-later-aaaaaa'),
    cell('00000002', 'unsaved'),
    cell('00000003', '20260101-101500-earlier-bbbbbb'),
    cell('00000004', '20260103-101500-last-cccccc')
  ] as never;
  const found = savedRuns(cells, new Set(), []).map(({ run }) => run);
  expect(found).toEqual(['00000002', '00000003', '00000001', '00000004']);
});

test('a branch is asked where its run was', () => {
  const mark = { run_id: '20260102-030405-who', iteration: 2 } as unknown as Mark;
  expect(branched(mark, trans)).toContain('RLM.fork("20260102-030405-who", at=2)');
  const own = { ...mark, base_url: 'http://127.0.0.1:8080/v1' };
  expect(branched(own, trans)).toContain('at=2, base_url="http://127.0.0.1:8080/v1")');
});
