/** Spares a page what its editors cost one another. */

import type { Notebook } from '@jupyterlab/notebook';
import type { Signal } from '@lumino/signaling';

/** What the class names that CodeMirror makes begin with. */
const MADE = '.\u037c';

let kept: HTMLStyleElement | undefined;
let isWithout = false;

/**
 * Older versions of CodeMirror's style-mod write the same style sheet anew for each editor that is made. The page
 * then finds the styles of all its editors again: the more cells there are, the longer it takes to add one.
 */
export function keepStyles(): void {
  if (kept?.isConnected) {
    return;
  }
  const inherited = Object.getOwnPropertyDescriptor(Node.prototype, 'textContent');
  kept = Array.from(document.head.querySelectorAll('style')).find(style => style.textContent?.includes(MADE));
  if (kept && inherited) {
    Object.defineProperty(kept, 'textContent', {
      configurable: true,
      get(this: Node): unknown {
        return inherited.get?.call(this);
      },
      set(this: Node, text: unknown): void {
        if (inherited.get?.call(this) !== text) {
          inherited.set?.call(this, text);
        }
      }
    });
  }
}

/**
 * Do something to a notebook that leaves the active cell what it is, and at most changes its number. By itself Lab
 * takes another number for another cell: it sets the cursor of every editor, which measures them all, and makes the
 * toolbar of the active cell anew.
 */
export function withoutCursors(notebook: Notebook, change: () => void): void {
  const view = notebook as unknown as { _trimSelections?: unknown };
  if (typeof view._trimSelections !== 'function' || isWithout) {
    change();
    return;
  }
  const active = notebook.activeCell;
  const changed = notebook.activeCellChanged as unknown as { emit?: unknown } | undefined;
  isWithout = true;
  view._trimSelections = () => undefined;
  if (changed) {
    changed.emit = () => undefined;
  }
  try {
    change();
  } finally {
    // those of their classes are there again
    isWithout = false;
    delete view._trimSelections;
    delete changed?.emit;
  }
  if (notebook.activeCell !== active) {
    (notebook.activeCellChanged as Signal<Notebook, Notebook['activeCell']>).emit(notebook.activeCell);
  }
}
