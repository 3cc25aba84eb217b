/** What is drawn anew when a cell's outputs become others: as little as can be. */

import type { Output } from '../src/protocol/messages';
import { finishOutputs, writeOutputs } from '../src/cells/outputs';

type Area = Parameters<typeof writeOutputs>[0];

/** Outputs as Lab keeps them: streams that follow each other are one. */
class Kept {
  outputs: Output[] = [];
  done: string[] = [];

  get length(): number {
    return this.outputs.length;
  }

  toJSON(): Output[] {
    return structuredClone(this.outputs);
  }

  fromJSON(outputs: Output[]): void {
    this.done.push('all');
    this.outputs = structuredClone(outputs);
  }

  add(output: Output): void {
    this.done.push('add');
    const last = this.outputs[this.outputs.length - 1];
    if (output.output_type === 'stream' && last?.output_type === 'stream' && last.name === output.name) {
      last.text = `${last.text}${output.text}`;
    } else {
      this.outputs.push(structuredClone(output));
    }
  }

  set(place: number, output: Output): void {
    this.done.push('set');
    this.outputs[place] = structuredClone(output);
  }
}

const stream = (text: string, name = 'stdout'): Output => ({ output_type: 'stream', name, text });
const shown = (text: string): Output => ({ output_type: 'display_data', data: { 'text/plain': text }, metadata: {} });

test.each<[string, Output[], Output[], string[]]>([
  ['nothing changes', [stream('a'), shown('b')], [stream('a'), shown('b')], []],
  ['a stream grows', [shown('b'), stream('a')], [shown('b'), stream('ab')], ['add']],
  ['a stream grows, and more comes', [stream('a')], [stream('ab'), shown('c'), stream('d')], ['add', 'add', 'add']],
  ['a display is updated', [shown('a'), stream('x')], [shown('b'), stream('xy')], ['set', 'add']],
  ['the last display is updated', [stream('x'), shown('a')], [stream('x'), shown('b'), stream('y')], ['set', 'add']],
  ['a stream becomes another', [stream('abc')], [stream('ab')], ['all']],
  ['all is cleared', [stream('a'), shown('b')], [], ['all']],
  ['all is new', [], [stream('a'), stream('b', 'stderr')], ['add', 'add']]
])('%s', (_, before, told, done) => {
  const area = new Kept();
  area.outputs = structuredClone(before);
  writeOutputs(area as unknown as Area, told, before);
  expect(area.outputs).toEqual(told);
  expect(area.done).toEqual(done);
});

test('what somebody has cleared is there again', () => {
  const area = new Kept();
  writeOutputs(area as unknown as Area, [stream('ab')], [stream('a')]);
  expect(area.outputs).toEqual([stream('ab')]);
  writeOutputs(area as unknown as Area, [stream('ab')]);
  expect(area.done).toEqual(['all']);
});

test('outputs that a saved notebook has, with their keys in another order, are left as they are', () => {
  const area = new Kept();
  const [png, text] = ['iVBOR', '<Figure>'];
  area.outputs = [{ data: { 'image/png': png, 'text/plain': text }, metadata: {}, output_type: 'display_data' }];
  const told = { output_type: 'display_data', data: { 'text/plain': text, 'image/png': png }, metadata: {} };
  writeOutputs(area as unknown as Area, [told]);
  expect(area.done).toEqual([]);
});

test('the last outputs stand in the place of the progress, and what a person printed stays', () => {
  const html = (text: string): Output => ({ output_type: 'display_data', data: { 'text/html': text }, metadata: {} });
  const area = new Kept();
  area.outputs = [stream('mine'), html('<div class="rlm mathjax_ignore rlm-under-way">Iteration 2</div>'), html('')];
  finishOutputs(area as unknown as Area, [html('Answered'), html('Rome')]);
  expect(area.outputs).toEqual([stream('mine'), html('Answered'), html('Rome')]);
  area.outputs = [stream('mine'), html('<div class="rlm rlm-under-way">2 s</div>'), html('Rome')];
  finishOutputs(area as unknown as Area, [html('Answered'), html('Rome')]);
  expect(area.outputs).toEqual([stream('mine'), html('Answered'), html('Rome')]);
});
