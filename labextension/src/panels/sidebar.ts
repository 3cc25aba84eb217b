/** The side panel: the runs of the notebook in front, as trees, and what to look for in them. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { failuresOf } from '../model/failures';
import { Filter } from '../model/filter';
import type { RunModel } from '../model/run';
import type { LiveNotebook } from '../notebook/view';
import { RunTree } from './tree';
import type { TreeActions } from './tree';

const REST_MILLISECONDS = 250;
/** There is no room for more digits. */
const MOST_COUNTED = 9;

export class RunsPanel extends Widget {
  constructor(private readonly _trans: TranslationBundle) {
    super();
    this.id = 'rlm-runs';
    this.addClass('rlm-runs');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', _trans.__('RLM: Runs of This Notebook'));
    this.title.caption = _trans.__('RLM: Runs of This Notebook');
    this._empty.className = 'rlm-runs-empty';
    this._empty.textContent = _trans.__('No run yet: %1 or %2 in a cell begins one.', '%rlm', '%%rlm');
    this.node.append(this._search(), this._empty, this._trees);
  }

  /** Show the runs of this notebook. */
  watch(notebook: LiveNotebook | undefined): void {
    if (notebook !== this._notebook) {
      this._notebook?.changed.disconnect(this._soon, this);
      this._notebook = notebook;
      notebook?.changed.connect(this._soon, this);
      this._known.clear();
      this._trees.replaceChildren();
    }
    this.update();
  }

  protected override onAfterShow(): void {
    this.update();
  }

  protected override onUpdateRequest(): void {
    this._mark();
    if (!this.isVisible) {
      return;
    }
    const focused = this._focused();
    // the newest first; a run that was found again is no longer one of the saved
    const runs = [...(this._notebook?.runs ?? [])].reverse();
    const all = [...runs, ...[...(this._notebook?.saved ?? [])].reverse()];
    for (const [run, tree] of this._known) {
      if (!all.includes(run)) {
        tree.node.remove();
        this._known.delete(run);
      }
    }
    let before: Element | null = null;
    let found = 0;
    for (const run of all) {
      const tree = this._known.get(run) ?? new RunTree(run, this._treeActions, this._trans);
      this._known.set(run, tree);
      const matches = tree.paint(this._filter);
      found += matches;
      tree.node.hidden = this._filter.isOn && !matches;
      const place: Element | null = before ? before.nextElementSibling : this._trees.firstElementChild;
      if (place !== tree.node) {
        this._trees.insertBefore(tree.node, place);
      }
      before = tree.node;
    }
    this._empty.hidden = all.length > 0;
    this._form.hidden = !all.length;
    this._say(found);
    if (focused && document.activeElement !== this._focused(focused)) {
      this._focused(focused)?.focus();
    }
  }

  /** A failure is seen before the panel is opened, and not pointed out any more once it was. */
  private _mark(): void {
    const runs = this._notebook?.runs ?? [];
    const failures = runs.map(failuresOf);
    if (this.isVisible) {
      runs.forEach((run, place) => this._seen.set(run, failures[place]));
    }
    const failed = runs.filter((run, place) => failures[place] > (this._seen.get(run) ?? 0)).length;
    const caption = this._trans.__('RLM: Runs of This Notebook');
    const words = this._trans._n('%1 run with errors', '%1 runs with errors', failed);
    this.title.caption = failed ? `${caption}: ${words}` : caption;
    this.title.className = failed ? 'rlm-tab-errors' : '';
    this.title.dataset = failed ? { 'rlm-errors': failed > MOST_COUNTED ? `${MOST_COUNTED}+` : `${failed}` } : {};
  }

  /** The box for words, and the one for failures only. */
  private _search(): HTMLElement {
    const trans = this._trans;
    this._form.className = 'rlm-runs-search';
    this._form.setAttribute('role', 'search');
    this._words.type = 'search';
    this._words.className = 'jp-mod-styled';
    this._words.placeholder = trans.__('Filter');
    this._words.setAttribute('aria-label', trans.__('Show only what has these words: in prose, code, prompts'));
    this._errors.type = 'checkbox';
    const label = document.createElement('label');
    label.append(this._errors, trans.__('Errors only'));
    this._found.className = 'rlm-runs-found';
    this._found.setAttribute('role', 'status');
    this._form.append(this._words, label, this._found);
    const look = (): void => {
      this._filter = new Filter(this._words.value, this._errors.checked);
      this.update();
    };
    this._words.addEventListener('input', look);
    this._errors.addEventListener('change', look);
    return this._form;
  }

  private _say(found: number): void {
    const words = this._filter.isOn ? this._trans._n('%1 found', '%1 found', found) : '';
    if (this._found.textContent !== words) {
      this._found.textContent = words;
    }
  }

  /** What has the focus, by its key; or the element that has this key now. */
  private _focused(): string | undefined;
  private _focused(key: string): HTMLElement | null;
  private _focused(key?: string): string | undefined | HTMLElement | null {
    if (key !== undefined) {
      return this._trees.querySelector<HTMLElement>(`[data-rlm-key="${CSS.escape(key)}"]`);
    }
    const active = document.activeElement;
    return active instanceof HTMLElement && this._trees.contains(active) ? active.dataset.rlmKey : undefined;
  }

  /** Not more often than people can read. */
  private _soon(): void {
    if (!this._due) {
      this._due = true;
      window.setTimeout(() => {
        this._due = false;
        if (!this.isDisposed) {
          this.update();
        }
      }, REST_MILLISECONDS);
    }
  }

  private readonly _treeActions: TreeActions = {
    jump: cellId => void this._notebook?.jump(cellId),
    stop: run => this._notebook?.steering.stop(run),
    show: place => void this._notebook?.show(place),
    export: (run, form) => this._notebook?.steering.export(run, form),
    showChild: (run, child, open) => this._notebook?.steering.ask(run, { type: 'child', child, open })
  };
  private readonly _form = document.createElement('div');
  private readonly _words = document.createElement('input');
  private readonly _errors = document.createElement('input');
  private readonly _found = document.createElement('span');
  private readonly _empty = document.createElement('p');
  private readonly _trees = document.createElement('div');
  private readonly _known = new Map<RunModel, RunTree>();
  /** How many failures of a run were in the panel as it was open. */
  private readonly _seen = new WeakMap<RunModel, number>();
  private _filter = new Filter();
  private _notebook: LiveNotebook | undefined;
  private _due = false;
}
