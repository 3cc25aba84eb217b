import type { Notebook } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';

import { keepStyles, withoutCursors } from '../src/performance/editors';

class View {
  trimmed = 0;

  insert(): void {
    this._trimSelections();
  }

  _trimSelections(): void {
    this.trimmed++;
  }
}

test('a cell that is put in sets no cursor, and what a person does later sets them again', () => {
  const view = new View();
  withoutCursors(view as unknown as Notebook, () => view.insert());
  expect(view.trimmed).toBe(0);
  view.insert();
  expect(view.trimmed).toBe(1);
  const fail = (): void => {
    throw new Error('no such place');
  };
  expect(() => withoutCursors(view as unknown as Notebook, fail)).toThrow('no such place');
  view.insert();
  expect(view.trimmed).toBe(2);
});

test('who follows the active cell hears of another one, and of no other number', () => {
  const heard: unknown[] = [];
  const activeCellChanged = new Signal<object, unknown>({});
  activeCellChanged.connect((_, cell) => heard.push(cell));
  const notebook = { activeCell: 'mine', activeCellChanged, _trimSelections: (): void => undefined };
  withoutCursors(notebook as unknown as Notebook, () => activeCellChanged.emit('mine'));
  expect(heard).toEqual([]);
  withoutCursors(notebook as unknown as Notebook, () => {
    notebook.activeCell = 'other';
    activeCellChanged.emit('other');
  });
  expect(heard).toEqual(['other']);
  activeCellChanged.emit('later');
  expect(heard).toEqual(['other', 'later']);
});

test('a notebook without cursors to set is changed all the same', () => {
  const change = jest.fn();
  withoutCursors({} as Notebook, change);
  expect(change).toHaveBeenCalledTimes(1);
});

test('the style sheet of the editors is written when it is another, and only then', () => {
  let written = 0;
  class FakeNode {
    private _text = '';

    get textContent(): string {
      return this._text;
    }

    set textContent(text: string) {
      this._text = text;
      written++;
    }
  }
  const [others, made] = [new FakeNode(), new FakeNode()];
  others.textContent = '.jp-Cell { color: red }';
  made.textContent = '.\u037c1 { color: red }';
  const head = { querySelectorAll: () => [others, made] };
  Object.assign(globalThis, { Node: FakeNode, document: { head } });
  keepStyles();
  written = 0;
  made.textContent = '.\u037c1 { color: red }';
  expect(written).toBe(0);
  made.textContent = '.\u037c1 { color: blue }';
  expect([written, made.textContent]).toEqual([1, '.\u037c1 { color: blue }']);
  others.textContent = '.jp-Cell { color: red }';
  expect(written).toBe(2);
});
