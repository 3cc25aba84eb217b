/** Spares a page the layout of large outputs while nobody looks at them. */

import type { Cell, CodeCell } from '@jupyterlab/cells';

import type { Output } from '../protocol/messages';

/** Smaller ones are laid out at once: it takes no time, and their height is known. */
const LARGE_CHARS = 2000;
const LINE_CHARS = 100;
const LINE_PIXELS = 17;
const ROW_PIXELS = 24;
const ROWS = /<(?:tr|br|p|li|div|h[1-6])\b/gi;

/** What of a code cell is needed here; part of it is Lab's own affair. */
interface Drawn {
  readonly isDisposed: boolean;
  readonly outputArea: CodeCell['outputArea'];
  updatePromptOverlayIcon?: () => void;
}

/** Cells whose icon is to be looked after. */
const due = new WeakSet<Drawn>();

/**
 * Write a cell's outputs. Lab reads how high they are each time that one of them becomes another, for an icon
 * beside them, and the browser then lays them out, even those of a cell that is out of sight. Here it is read
 * once, when the page has drawn; and what is out of sight by then has the height that it probably has.
 */
export function withHeights(widget: Cell | undefined, outputs: readonly Output[], write: () => void): void {
  const cell = widget as unknown as Drawn | undefined;
  if (typeof cell?.updatePromptOverlayIcon !== 'function') {
    write();
    return;
  }
  cell.updatePromptOverlayIcon = () => undefined;
  try {
    write();
  } finally {
    delete cell.updatePromptOverlayIcon; // that of its class is there again
  }
  cell.outputArea.widgets.forEach(({ node }, place) => {
    const height = heightOf(outputs[place]);
    // once it was seen, the browser knows better
    node.style.setProperty('contain-intrinsic-height', height ? `auto ${height}px` : '');
    node.style.contentVisibility = height ? 'auto' : '';
  });
  if (!due.has(cell)) {
    due.add(cell);
    requestAnimationFrame(() =>
      setTimeout(() => {
        due.delete(cell);
        if (!cell.isDisposed) {
          cell.updatePromptOverlayIcon?.();
        }
      })
    );
  }
}

/** About how high a large output is, in pixels; `0`: it is a small one, or one that brings its own height. */
export function heightOf(output: Output | undefined): number {
  const data = (output?.data ?? {}) as Record<string, unknown>;
  const html = data['text/html'];
  if (typeof html === 'string') {
    return html.length > LARGE_CHARS ? ROW_PIXELS * Math.max(html.match(ROWS)?.length ?? 0, 1) : 0;
  }
  const printed = output?.text ?? (output?.traceback as string[] | undefined)?.join('\n');
  const text = printed ?? (Object.keys(data).length === 1 ? data['text/plain'] : undefined);
  if (typeof text !== 'string' || text.length <= LARGE_CHARS) {
    return 0;
  }
  let lines = 0;
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const next = end < 0 ? text.length : end + 1;
    lines += Math.max(Math.ceil((next - 1 - at) / LINE_CHARS), 1);
    at = next;
  }
  return lines * LINE_PIXELS;
}
