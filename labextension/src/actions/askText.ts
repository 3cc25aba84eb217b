/** Asks a person for a line of text: a message to the model, or why a cell is refused. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

/** Lab's own box for text has room for 20 characters, and takes no other width. */
class TextBody extends Widget implements Dialog.IBodyWidget<string> {
  constructor(label: string) {
    super();
    this.addClass('rlm-ask');
    const words = document.createElement('label');
    words.append(label, this._text);
    this._text.type = 'text';
    this._text.className = 'jp-mod-styled';
    this.node.append(words);
  }

  getValue(): string {
    return this._text.value;
  }

  private readonly _text = document.createElement('input');
}

/** Ask for a text; `null`: the person cancelled. @param button what it says that goes on. */
export async function askText(title: string, label: string, button: string): Promise<string | null> {
  const said = await showDialog({
    title,
    body: new TextBody(label),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: button })],
    focusNodeSelector: 'input'
  });
  return said.button.accept ? (said.value ?? '') : null;
}
