/** How high a browser takes a large output for, and when Lab reads how high the outputs are. */

import type { Output } from '../src/protocol/messages';
import { heightOf, withHeights } from '../src/performance/outputHeights';

const printed = (text: string): Output => ({ output_type: 'stream', name: 'stdout', text });
const shown = (data: Record<string, unknown>): Output => ({ output_type: 'display_data', data });

test('a large text is as high as its lines, those that are wrapped counted as they are shown', () => {
  expect(heightOf(printed('word\n'.repeat(1000)))).toBe(17_000);
  expect(heightOf(printed(`${'x'.repeat(99)}\n`.repeat(100)))).toBe(1700);
  expect(heightOf(printed('x'.repeat(10_000)))).toBe(1700);
  expect(heightOf(shown({ 'text/plain': '\n'.repeat(3000) }))).toBe(51_000);
  const error: Output = { output_type: 'error', traceback: ['line\n'.repeat(500), 'the end'] };
  expect(heightOf(error)).toBe(502 * 17);
});

test('a large table is as high as its rows', () => {
  const html = `<table>${'<tr><td>cell</td><td>cell</td></tr>'.repeat(100)}</table>`;
  expect(heightOf(shown({ 'text/html': html, 'text/plain': 'a frame' }))).toBe(2400);
});

test('what is small, or a picture, has its own height at once', () => {
  expect(heightOf(undefined)).toBe(0);
  expect(heightOf(printed('word\n'.repeat(10)))).toBe(0);
  expect(heightOf(shown({ 'text/html': '<b>bold</b>', 'text/plain': 'x'.repeat(5000) }))).toBe(0);
  expect(heightOf(shown({ 'image/png': 'A'.repeat(5000), 'text/plain': 'x'.repeat(5000) }))).toBe(0);
});

describe('a cell whose outputs are written', () => {
  const later: (() => void)[] = [];
  let read = 0;

  class Style {
    contentVisibility = '';
    height = '';

    setProperty(name: string, value: string): void {
      expect(name).toBe('contain-intrinsic-height');
      this.height = value;
    }
  }

  const drawn = (): { node: { style: Style } } => ({ node: { style: new Style() } });

  class DrawnCell {
    isDisposed = false;
    outputArea = { widgets: [drawn(), drawn()] };

    updatePromptOverlayIcon(): void {
      read++;
    }
  }

  const cell = new DrawnCell();
  const write = (outputs: Output[], change = (): void => cell.updatePromptOverlayIcon()): void => {
    withHeights(cell as never, outputs, change);
  };
  const styles = (): unknown[] =>
    cell.outputArea.widgets.map(({ node }) => [node.style.contentVisibility, node.style.height]);

  beforeEach(() => {
    later.length = read = 0;
    const wait = (go: () => void): void => void later.push(go);
    Object.assign(globalThis, { requestAnimationFrame: (go: () => void) => go() });
    jest.spyOn(globalThis, 'setTimeout').mockImplementation(wait as never);
  });

  afterEach(() => jest.restoreAllMocks());

  test('is read once, when the page has drawn, however often they are written before', () => {
    write([printed('short')]);
    write([printed('x'.repeat(10_000)), printed('short')]);
    expect(styles()).toEqual([
      ['auto', 'auto 1700px'],
      ['', '']
    ]);
    expect(read).toBe(0);
    later.splice(0).forEach(go => go());
    expect(read).toBe(1);
    // what Lab does by itself is as ever
    cell.updatePromptOverlayIcon();
    expect(read).toBe(2);
    write([printed('short'), printed('short')]);
    expect(styles()[0]).toEqual(['', '']);
    expect(later).toHaveLength(1);
    later.splice(0).forEach(go => go());
  });

  test('is as it was where writing fails, and nothing is read of one that is gone', () => {
    const fail = (): void => {
      throw new Error('no such output');
    };
    expect(() => write([], fail)).toThrow('no such output');
    cell.updatePromptOverlayIcon();
    expect(read).toBe(1);
    write([]);
    cell.isDisposed = true;
    later.splice(0).forEach(go => go());
    expect(read).toBe(1);
  });

  test('that shows nothing, or is no cell of outputs, is written all the same', () => {
    const change = jest.fn();
    withHeights(undefined, [], change);
    withHeights({} as never, [], change);
    expect(change).toHaveBeenCalledTimes(2);
    expect(later).toHaveLength(0);
  });
});
