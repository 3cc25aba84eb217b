/** Children in the model, by the conversation that the kernel's side is tested with. */

import { readFileSync } from 'fs';
import { join } from 'path';

import type { Batch, Child, LiveCell, RunFacts } from '../src/protocol/messages';
import { RunModel } from '../src/model/run';

const recorded = JSON.parse(
  readFileSync(join(__dirname, '..', '..', 'tests', 'support', 'protocol.json'), 'utf-8')
) as { messages: Batch[]; final: { cells: LiveCell[]; facts: RunFacts; children: Child[] } };
const [last] = recorded.final.children;

/** The model after each message. */
function* heard(messages: Batch[] = recorded.messages): Generator<RunModel> {
  const model = new RunModel(recorded.messages[0].run, 'the-cell');
  for (const message of structuredClone(messages)) {
    model.fold(message);
    yield model;
  }
}

function whole(): RunModel {
  const [model] = [...heard()].slice(-1);
  return model;
}

test('a child is told of before anybody looks at it', () => {
  const states = new Set<string>();
  for (const model of heard()) {
    const child = model.child(last.id);
    if (child) {
      states.add(`${child.phase}|${child.iteration}|${child.open}|${model.promptOf(child)}`);
    }
  }
  expect(states).toContain('writing|1|false|the part');
  expect(states).toContain('ended|1|false|the part');
  expect(states).toContain('ended|1|true|the part');
});

test('its cells stand below the sub-calls that it answers, and above what follows', () => {
  const model = whole();
  const roles = model.cells.slice(-9, -1).map(cell => `${cell.facts.role} ${cell.facts.depth ?? 0}`);
  const childs = ['boundary 1', 'prose 1', 'code 1', 'answer 1', 'boundary 1'];
  expect(roles).toEqual(['code 0', 'subcalls 0', ...childs, 'answer 0']);
});

test('the run’s own cells are those without the child’s', () => {
  const model = whole();
  expect(model.cells.length - model.own.length).toBe(5);
  expect(model.own.every(cell => cell.facts.child === undefined)).toBe(true);
  expect(model.childrenOf(last.of ?? '').map(child => child.id)).toEqual([last.id]);
});

test('a snapshot brings the children, and takes those away that it does not have', () => {
  const model = new RunModel(recorded.messages[0].run, 'the-cell');
  const changes = model.fold({ v: 1, run: model.run, seq: 5, snapshot: structuredClone(recorded.final) });
  expect(changes.filter(change => change.kind === 'child').length).toBe(1);
  expect(model.child(last.id)).toEqual(last);
  model.fold({ v: 1, run: model.run, seq: 6, snapshot: { ...structuredClone(recorded.final), children: [] } });
  expect(model.child(last.id)).toBeUndefined();
});

test('what the kernel takes with it can’t be opened any more', () => {
  const models = heard(recorded.messages.slice(0, -4));
  let model: RunModel | undefined;
  for (model of models) {
    if (model.child(last.id)?.phase === 'writing') {
      break;
    }
  }
  model?.cut();
  expect(model?.child(last.id)).toMatchObject({ phase: 'ended', outcome: 'cut', kept: false, open: false });
});
