/** A run in the side panel: what it used, and its iterations, cells, sub-calls and children as a tree. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { reasonOf, wordsOf } from '../inline/bar';
import { ChildButton } from '../inline/children';
import type { Child, Form, LiveCell, Place, Subcall } from '../protocol/messages';
import { childOf, notebookOf } from '../actions/openFile';
import { errorsOf, failuresOf } from '../model/failures';
import type { Filter } from '../model/filter';
import { meters, numbersOf } from '../inline/meters';
import type { RunModel } from '../model/run';

const LINE_CHARS = 60;

/** What can be done from the tree. */
export interface TreeActions {
  jump(cellId: string): void;
  stop(run: RunModel): void;
  show(place: Place): void;
  export(run: RunModel, form: Form): void;
  showChild(run: RunModel, child: string, open: boolean): void;
}

interface Branch {
  node: HTMLDetailsElement;
  facts: HTMLElement;
  errors: HTMLElement;
  rows: HTMLElement;
  /** Of what is drawn. */
  drawn: string;
  matches: number;
}

export class RunTree {
  constructor(
    readonly run: RunModel,
    private readonly _treeActions: TreeActions,
    private readonly _trans: TranslationBundle
  ) {
    this._root = this._branch(run.run, '');
    this._root.node.classList.add('rlm-run');
    this._root.rows.append(this._numbers, this._actions, this._iterations, this._answer);
    this._actions.className = 'rlm-runs-actions';
    this._actions.setAttribute('role', 'group');
    this._actions.setAttribute('aria-label', _trans.__('What can be done with this run'));
  }

  get node(): HTMLElement {
    return this._root.node;
  }

  /** Bring it up to the run; what is the same stays, and with it the focus. Returns how many rows there are. */
  paint(filter: Filter): number {
    const { run } = this;
    const { node, facts } = this._root;
    titled(node, run.facts.prompt || this._trans.__('Starting'));
    facts.textContent = ` · ${wordsOf(run, this._trans)}`;
    facts.title = reasonOf(run); // it is said where the run was asked for
    this._paintErrors(this._root, failuresOf(run));
    node.dataset.rlmPhase = run.facts.phase;
    node.dataset.rlmOutcome = run.facts.outcome ?? '';
    this._open(node, run.run, true);
    this._numbers.replaceChildren(...(run.isSaved ? [] : [meters(run, this._trans)]));
    this._paintActions();
    const isMeant = filter.isOn && filter.run(run);
    const all = !filter.isOn || (isMeant && !filter.errors);
    let matches = isMeant ? 1 : 0;
    const there = new Map<number, LiveCell[]>();
    for (const cell of run.own) {
      if (cell.facts.role === 'answer') {
        matches += this._paintAnswer(cell, all || filter.cell(cell));
      } else if (cell.facts.role !== 'boundary') {
        const cells = there.get(cell.facts.iteration) ?? [];
        there.set(cell.facts.iteration, [...cells, cell]);
      }
    }
    for (const [iteration, branch] of this._branches) {
      if (!there.has(iteration)) {
        branch.node.remove();
        this._branches.delete(iteration);
      }
    }
    const last = Math.max(...there.keys());
    for (const [iteration, cells] of there) {
      matches += this._paintIteration(iteration, cells, all ? null : filter, iteration === last);
    }
    return matches;
  }

  private _paintIteration(iteration: number, cells: LiveCell[], filter: Filter | null, isLast: boolean): number {
    const known = this._branches.get(iteration);
    const branch = known ?? this._branch(`${this.run.run}-${iteration}`, this._trans.__('Iteration %1', iteration));
    if (!known) {
      this._branches.set(iteration, branch);
      const later = [...this._branches.keys()].filter(other => other > iteration).sort((a, b) => a - b)[0];
      this._iterations.insertBefore(branch.node, this._branches.get(later)?.node ?? null);
    }
    const numbers = numbersOf({ ...cells[0].facts, ...secondsOf(cells) }, this._trans);
    branch.facts.textContent = numbers.length ? ` · ${numbers.join(' · ')}` : '';
    branch.facts.title = numbers.join(' · '); // it is one line, whatever the panel has room for
    this._paintErrors(branch, errorsOf(cells, this.run));
    const state = `${filter?.key ?? ''}|${cells.map(cell => this._stateOf(cell)).join('|')}`;
    if (branch.drawn !== state) {
      branch.drawn = state;
      const rows = cells.flatMap(cell => this._rowsOf(cell, filter));
      branch.matches = rows.length;
      branch.rows.replaceChildren(...rows);
    }
    branch.node.hidden = filter !== null && !branch.matches;
    this._open(branch.node, `${this.run.run}-${iteration}`, filter !== null || isLast);
    return branch.matches;
  }

  /** A failure is seen before what is folded is opened. */
  private _paintErrors({ errors }: Branch, count: number): void {
    const words = count ? this._trans._n('%1 error', '%1 errors', count) : '';
    if (errors.title !== words) {
      errors.textContent = count ? ` ✕\u00a0${count}` : '';
      errors.title = words;
      errors.setAttribute('aria-label', words);
    }
  }

  /** All that a row shows: it is drawn anew when this is another. */
  private _stateOf(cell: LiveCell): string {
    const calls = cell.facts.calls?.length ?? 0;
    const children = cell.facts.role === 'subcalls' ? JSON.stringify(this.run.childrenOf(cell.id)) : '';
    return `${cell.id} ${cell.status} ${calls} ${cell.source.length} ${firstLine(cell.source)} ${children}`;
  }

  private _rowsOf(cell: LiveCell, filter: Filter | null): HTMLElement[] {
    if (cell.facts.role === 'subcalls') {
      const children = this.run.childrenOf(cell.id);
      const calls = (cell.facts.calls ?? []).filter(call => !filter || filter.call(call));
      const rows = calls.map(call => this._subcall(cell.id, call, children));
      const shown = filter ? children.filter(child => calls.some(call => call.ordinal === child.ordinal)) : children;
      return [...rows, ...shown.map(child => this._child(child))];
    }
    if (filter && !filter.cell(cell)) {
      return [];
    }
    const line = firstLine(cell.source);
    const link = this._link(cell.id, cell.id, cell.type === 'code' ? line : plain(line));
    link.dataset.rlmStatus = cell.status;
    link.classList.add(cell.type === 'code' ? 'rlm-runs-code' : 'rlm-runs-prose');
    return [link];
  }

  private _subcall(cellId: string, call: Subcall, children: Child[]): HTMLElement {
    const name = call.child ? this._trans.__('child') : call.kind === 'rlm' ? 'rlm_query' : 'llm_query';
    const words = [`${name}: ${call.prompt}`, call.model, ...numbersOf(call, this._trans)].filter(Boolean);
    const link = this._link(cellId, `${cellId}-${call.kind}-${call.ordinal}`, words.join(' · '));
    link.classList.add('rlm-runs-subcall');
    link.dataset.rlmStatus = call.failed ? 'error' : 'ok';
    // where the page knows the child itself, that has the button
    return call.child && !children.some(({ id }) => id === call.child) ? this._withNotebook(link, call.child) : link;
  }

  private _child(child: Child): HTMLElement {
    const { node } = new ChildButton(this.run, child, this._trans, (run, id, open) =>
      this._treeActions.showChild(run, id, open)
    );
    node.classList.add('rlm-runs-link');
    node.dataset.rlmKey = `child-${child.id}`;
    return this._withNotebook(node, child.id);
  }

  /** A row with a button that opens the notebook of its child. */
  private _withNotebook(row: HTMLElement, child: string): HTMLElement {
    const place = childOf(this.run, child);
    if (!place) {
      return row;
    }
    const both = document.createElement('div');
    both.className = 'rlm-runs-child';
    const label = this._trans.__('Notebook');
    const button = this._button(label, this._trans.__('Open the notebook of this child'), `notebook-${child}`);
    button.addEventListener('click', () => this._treeActions.show(place));
    both.append(row, button);
    return both;
  }

  private _paintAnswer(cell: LiveCell, isShown: boolean): number {
    if (!this._answer.firstChild) {
      this._answer.append(this._link(cell.id, `${cell.id}-answer`, this._trans.__('Answer')));
    }
    this._answer.hidden = !isShown;
    return isShown ? 1 : 0;
  }

  private _paintActions(): void {
    const trans = this._trans;
    const place = notebookOf(this.run);
    const state = `${this.run.isOver} ${place?.path ?? ''}`;
    if (this._offered === state) {
      return;
    }
    this._offered = state;
    const go = this._button(trans.__('Cell'), trans.__('Go to the cell that asked'), 'cell');
    go.addEventListener('click', () => this._treeActions.jump(this.run.parent));
    this._actions.replaceChildren(go);
    if (!this.run.isOver) {
      // the bar is gone with the cell that asked
      const stop = this._button(trans.__('Stop'), trans.__('End the run with the best answer so far'), 'stop');
      stop.classList.add('rlm-stop');
      stop.addEventListener('click', () => this._treeActions.stop(this.run));
      this._actions.append(stop);
    }
    if (place) {
      const open = this._button(trans.__('Notebook'), trans.__("Open the run's own notebook"), 'notebook');
      open.addEventListener('click', () => this._treeActions.show(place));
      this._actions.append(open);
    }
    const forms: [Form, string, string][] = [
      ['ipynb', 'ipynb', trans.__('Export as one notebook that can be sent; keys and home folders are taken out')],
      ['html', 'HTML', trans.__('Export as a page; keys and home folders are taken out')],
      ['jsonl', 'JSONL', trans.__('Export as lines of JSON; keys and home folders are taken out')]
    ];
    for (const [form, label, caption] of place ? forms : []) {
      const button = this._button(trans.__('Export %1', label), caption, form);
      button.addEventListener('click', () => this._treeActions.export(this.run, form));
      this._actions.append(button);
    }
  }

  private _branch(key: string, title: string): Branch {
    const node = document.createElement('details');
    const summary = document.createElement('summary');
    const facts = document.createElement('span');
    const errors = document.createElement('span');
    errors.className = 'rlm-runs-errors';
    errors.setAttribute('role', 'img');
    const rows = document.createElement('div');
    summary.dataset.rlmKey = key;
    summary.append(document.createElement('b'), errors, facts);
    // what a person does counts from then on; by a key it is a click, too
    summary.addEventListener('click', () => this._opened.set(key, !node.open));
    node.append(summary, rows);
    titled(node, title);
    return { node, facts, errors, rows, drawn: '', matches: 0 };
  }

  private _open(node: HTMLDetailsElement, key: string, isOpen: boolean): void {
    const wanted = this._opened.get(key) ?? isOpen;
    if (node.open !== wanted) {
      node.open = wanted;
    }
  }

  private _link(cellId: string, key: string, text: string): HTMLButtonElement {
    const button = this._button(text, this._trans.__('Go to the cell'), key);
    button.className = 'rlm-runs-link';
    button.addEventListener('click', () => this._treeActions.jump(cellId));
    return button;
  }

  private _button(label: string, caption: string, key: string): HTMLButtonElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'rlm-button';
    button.textContent = label;
    button.title = caption;
    button.dataset.rlmKey = `${this.run.run}-${key}`;
    return button;
  }

  private readonly _root: Branch;
  private readonly _numbers = document.createElement('div');
  private readonly _actions = document.createElement('div');
  private readonly _iterations = document.createElement('div');
  private readonly _answer = document.createElement('div');
  private readonly _branches = new Map<number, Branch>();
  /** What somebody has opened or closed. */
  private readonly _opened = new Map<string, boolean>();
  private _offered = '-';
}

/** Of the reply and of the cells that it had executed, as far as they are known. */
export function secondsOf(cells: LiveCell[]): { seconds?: number } {
  const known = cells.flatMap(cell => cell.facts.seconds ?? []);
  return known.length ? { seconds: known.reduce((sum, seconds) => sum + seconds, 0) } : {};
}

function titled(node: HTMLDetailsElement, title: string): void {
  const name = node.querySelector('summary > b');
  if (name && name.textContent !== title) {
    name.textContent = title;
  }
}

function firstLine(source: string): string {
  return (source.split('\n', 50).find(text => text.trim()) ?? '').slice(0, LINE_CHARS);
}

/** A line of Markdown without what makes it a quotation, or stresses a part of it. */
function plain(line: string): string {
  return line.replace(/^(?:>\s?)+/, '').replace(/(\*{1,2})(\S(?:.*?\S)?)\1/g, '$2');
}
