/** Spares a page what its editors cost one another. */

import type { Notebook } from '@jupyterlab/notebook';

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
 * takes another number for another cell, and sets the cursor of every editor, which measures them all.
 */
export function withoutCursors(notebook: Notebook, change: () => void): void {
  const trimmed = notebook as unknown as { _trimSelections?: unknown };
  if (typeof trimmed._trimSelections !== 'function' || isWithout) {
    change();
    return;
  }
  isWithout = true;
  trimmed._trimSelections = () => undefined;
  try {
    change();
  } finally {
    isWithout = false;
    delete trimmed._trimSelections; // that of its class is there again
  }
}
