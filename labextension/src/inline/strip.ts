/** A line below a cell: what there is to know of it, and buttons for what can be done. */

import { PanelLayout, Widget } from '@lumino/widgets';
import type { Cell } from '@jupyterlab/cells';

export interface StripButton {
  label: string;
  caption: string;
  /** Its class, for the style and for tests. */
  name: string;
  act: () => void;
}

export class Strip extends Widget {
  constructor(label: string, words: string, buttons: StripButton[], name: string) {
    super();
    this.addClass('rlm-strip');
    this.addClass(name);
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', label);
    const said = document.createElement('span');
    said.textContent = words;
    const group = document.createElement('span');
    group.className = 'rlm-strip-buttons';
    group.append(...buttons.map(buttonOf));
    this.node.append(said, group);
  }

  /** Where the keyboard was on one of the buttons, it is in the notebook afterwards. */
  override dispose(): void {
    const hadFocus = this.node.contains(document.activeElement);
    const notebook = this.parent?.parent;
    super.dispose();
    if (hadFocus && notebook && !notebook.isDisposed) {
      notebook.activate();
    }
  }

  /** Show code below the words: it stands in no cell any more. */
  quote(words: string, code: string): void {
    const figure = document.createElement('figure');
    figure.className = 'rlm-strip-code';
    const caption = document.createElement('figcaption');
    caption.textContent = words;
    const quoted = document.createElement('pre');
    quoted.textContent = code;
    figure.append(caption, quoted);
    this.node.append(figure);
  }
}

/** Put something into a cell: at this place among its parts, else below all that it shows. */
export function addTo(cell: Cell, widget: Widget, place = Infinity): void {
  widget.disposed.connect(() => {
    // Lab takes its parts out of the node of a code cell that is out of view, and Lumino removes them from there
    if (widget.parent === cell && !cell.isDisposed && widget.node.parentNode !== cell.node) {
      cell.node.append(widget.node);
    }
  });
  cell.disposed.connect(() => widget.dispose());
  // a cell that was never in view is empty, and what is put into it now would stand on top
  void cell.ready.then(() => {
    if (!widget.isDisposed && !cell.isDisposed && cell.layout instanceof PanelLayout) {
      cell.layout.insertWidget(place, widget);
    }
  });
}

function buttonOf({ label, caption, name, act }: StripButton): HTMLButtonElement {
  const node = document.createElement('button');
  node.type = 'button';
  node.className = `rlm-button ${name}`;
  node.textContent = label;
  node.title = caption;
  node.setAttribute('aria-label', `${label}: ${caption}`);
  // keys on it are meant for it
  node.dataset.lmSuppressShortcuts = 'true';
  node.addEventListener('click', act);
  return node;
}
