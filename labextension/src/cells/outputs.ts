/** Brings a code cell's outputs up to what they are now, and draws no more of them anew than it must. */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import { JSONExt } from '@lumino/coreutils';

import type { Output } from '../protocol/messages';

/** What the kernel says, in the metadata of an output, of a live cell that was executed. */
export interface ByHand {
  /** Whether it ran in the kernel of its run; else it ran nowhere. */
  by_hand: boolean;
  /** Its number there. */
  count?: number | null;
  /** There will be no kernel for it any more. */
  gone?: boolean;
}

/**
 * Through the model of the outputs, and never inside a transaction: there, text would double.
 *
 * @param before what was written here last; `undefined`: nobody knows.
 */
export function writeOutputs(
  area: ICodeCellModel['outputs'],
  told: readonly Output[],
  before?: readonly Output[]
): void {
  if (!before || before.length !== area.length) {
    const there = area.toJSON() as unknown as Output[];
    if (there.length !== told.length || there.some((output, place) => !isAlike(output, told[place]))) {
      area.fromJSON(formatted(told));
    }
    return;
  }
  const last = before.length - 1;
  for (let place = 0; place <= last; place++) {
    const [was, now] = [before[place], told[place] as Output | undefined];
    if (now && isAlike(was, now)) {
      continue;
    }
    if (now && isRich(was) && isRich(now)) {
      area.set(place, formatted([now])[0]);
    } else if (now && place === last && isGrown(was, now)) {
      // Lab adds it to the stream that is there
      area.add({ ...formatted([now])[0], text: textOf(now).slice(textOf(was).length) });
    } else {
      area.fromJSON(formatted(told));
      return;
    }
  }
  for (const output of formatted(told.slice(before.length))) {
    area.add(output);
  }
}

/**
 * Put what a cell shows in the end in the place of a run's progress, which nothing updates any more. What of it has
 * arrived by itself is not shown twice.
 */
export function finishOutputs(area: ICodeCellModel['outputs'], told: readonly Output[]): void {
  const there = area.toJSON() as unknown as Output[];
  const others = there.filter(output => !isProgress(output) && !told.some(one => isAlike(one, output)));
  area.fromJSON(formatted([...others, ...told]));
}

/** The displays of a run under way: its headline, and the empty one below it. */
function isProgress(output: Output): boolean {
  const html = (output.data as Record<string, string | string[]> | undefined)?.['text/html'];
  const text = [html ?? '-'].flat().join('');
  return text === '' || text.includes('rlm-under-way');
}

function isAlike(one: Output, other: Output): boolean {
  if (one === other) {
    return true;
  }
  if (one.output_type !== other.output_type || one.name !== other.name) {
    return false;
  }
  return one.output_type === 'stream'
    ? textOf(one) === textOf(other)
    : JSONExt.deepEqual(one as never, other as never); // a saved notebook has the keys in another order
}

function isGrown(before: Output, now: Output): boolean {
  const isStream = before.output_type === 'stream' && now.output_type === 'stream' && before.name === now.name;
  return isStream && textOf(now).startsWith(textOf(before));
}

/** What a display that is updated becomes, in its place. */
function isRich(output: Output): boolean {
  return output.output_type === 'display_data' || output.output_type === 'execute_result';
}

function textOf(output: Output): string {
  return output.text ?? '';
}

function formatted(outputs: readonly Output[]): nbformat.IOutput[] {
  return outputs as unknown as nbformat.IOutput[];
}

/** What the kernel says of a live cell that was executed, where this output says it. */
export function byHand(output: nbformat.IOutput): ByHand | null {
  const metadata = output.metadata as { rlm?: Partial<ByHand> } | undefined;
  return typeof metadata?.rlm?.by_hand === 'boolean' ? (metadata.rlm as ByHand) : null;
}
