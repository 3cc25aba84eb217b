/** The row below a cell of sub-calls: those in flight, and the children, whose own cells it opens and closes. */

import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { addTo } from './strip';
import type { Child, Flying, LiveCell } from '../protocol/messages';
import { markOf } from '../model/marks';
import type { RunModel } from '../model/run';
import { outcomeWords } from '../model/outcomes';

const TICK_MILLISECONDS = 1000;
/** Children that are listed below one cell; all are in the run's notebook. */
const MOST_LISTED = 100;

/** Asks for a child's own cells, or to be rid of them. */
export type ShowChild = (run: RunModel, child: string, open: boolean) => void;

/** What a child is at, in a line. */
export function wordsOfChild(child: Child, trans: TranslationBundle): string {
  const state = stateOf(child, trans);
  const name = child.sample ? trans.__('Sample %1', child.sample) : trans.__('Child %1', child.number);
  const words = child.iteration
    ? trans.__('%1: iteration %2 · %3', name, child.iteration, state)
    : trans.__('%1: %2', name, state);
  const numbers = [
    ...(child.tokens ? [trans.__('%1 tokens', child.tokens.toLocaleString())] : []),
    ...(child.cost ? [`$${child.cost.toFixed(4)}`] : []),
    ...(child.seconds === null ? [] : [`${child.seconds.toFixed(1)} s`])
  ];
  return [words, ...numbers].join(' · ');
}

/** The button that opens and closes a child's cells; `paint` brings it up to what the child is now. */
export class ChildButton {
  constructor(
    private readonly _run: RunModel,
    private _child: Child,
    private readonly _trans: TranslationBundle,
    show: ShowChild
  ) {
    this.node.type = 'button';
    this.node.className = 'rlm-child';
    // keys on it are meant for it, not for the notebook
    this.node.dataset.lmSuppressShortcuts = 'true';
    this.node.addEventListener('click', () => {
      if (this._child.kept || this._child.open) {
        show(this._run, this._child.id, !this._child.open);
      }
    });
    this.paint(_child);
  }

  readonly node = document.createElement('button');

  paint(child: Child): void {
    this._child = child;
    const trans = this._trans;
    const action = child.open
      ? trans.__('hide cells')
      : child.kept
        ? trans.__('show cells')
        : trans.__('its cells are not kept');
    const text = trans.__('%1 — %2', wordsOfChild(child, trans), action);
    if (this.node.textContent !== text) {
      this.node.textContent = text;
    }
    this.node.dataset.rlmOutcome = child.outcome ?? '';
    this.node.setAttribute('aria-expanded', `${child.open}`);
    // one that can't be opened is still there to be read
    this.node.setAttribute('aria-disabled', `${!child.kept && !child.open}`);
    this.node.title = this._run.promptOf(child);
  }
}

class Row extends Widget {
  constructor(
    private readonly _run: RunModel,
    private readonly _cell: string,
    private readonly _trans: TranslationBundle,
    private readonly _show: ShowChild
  ) {
    super();
    this.addClass('rlm-asked');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', _trans.__('Sub-calls in flight, and children'));
    this._title.dataset.lmSuppressShortcuts = 'true';
    // a double click in it is no wish to edit the cell
    this.node.addEventListener('dblclick', event => event.stopPropagation());
    this._flight.append(this._title, this._flying);
    this.node.append(this._flight, this._children, this._further);
    this.refresh();
  }

  refresh(): void {
    const cell = this._run.cell(this._cell);
    this._paintFlight(cell);
    const children = this._run.childrenOf(this._cell);
    children.slice(0, MOST_LISTED).forEach((child, place) => {
      const known = this._buttons.get(child.id);
      known?.paint(child);
      const button = known ?? new ChildButton(this._run, child, this._trans, this._show);
      this._buttons.set(child.id, button);
      // in their order, also where a later one was there first; one that has the focus is not moved
      if (!known) {
        this._children.insertBefore(button.node, this._children.children[place] ?? null);
      }
    });
    const more = children.length - MOST_LISTED;
    this._further.hidden = more <= 0;
    this._further.textContent = more > 0 ? this._trans.__('%1 more: in the run’s notebook', more) : '';
    this.setHidden(this._flight.hidden && !children.length);
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    super.dispose();
  }

  private _paintFlight(cell: LiveCell | undefined): void {
    const flight = cell && !this._run.isOver ? (cell.facts.flight ?? []) : [];
    const now = Date.now();
    const seen = new Map(flight.map(call => [call.ordinal, this._seen.get(call.ordinal) ?? now]));
    this._seen = seen;
    this._flight.hidden = !flight.length;
    window.clearInterval(this._timer);
    if (!flight.length) {
      this._flying.replaceChildren();
      return;
    }
    const count = Math.max(cell?.facts.in_flight ?? 0, flight.length);
    this._title.textContent = this._trans._n('%1 sub-call in flight', '%1 sub-calls in flight', count);
    const lines = flight.map(call => [call, document.createElement('div')] as const);
    const tick = (): void => {
      for (const [call, line] of lines) {
        line.textContent = this._words(call, (Date.now() - (seen.get(call.ordinal) ?? now)) / 1000);
      }
    };
    tick();
    this._timer = window.setInterval(tick, TICK_MILLISECONDS);
    const more = count - flight.length;
    const rest = document.createElement('div');
    rest.textContent = more > 0 ? this._trans._n('and %1 more', 'and %1 more', more) : '';
    this._flying.replaceChildren(...lines.map(([, line]) => line), ...(more > 0 ? [rest] : []));
  }

  private _words(call: Flying, seconds: number): string {
    const name = call.kind === 'rlm' ? 'rlm_query' : 'llm_query';
    return [`${name}: ${call.prompt}`, call.model, `${seconds.toFixed(0)} s`].filter(Boolean).join(' · ');
  }

  private readonly _flight = document.createElement('details');
  private readonly _title = document.createElement('summary');
  private readonly _flying = document.createElement('div');
  private readonly _children = document.createElement('div');
  private readonly _further = document.createElement('div');
  private readonly _buttons = new Map<string, ChildButton>();
  private _seen = new Map<number, number>();
  private _timer = 0;
}

/** The rows of one view of a notebook. */
export class Rows {
  constructor(
    private readonly _trans: TranslationBundle,
    private readonly _run: (id: string) => RunModel | undefined,
    private readonly _show: ShowChild
  ) {}

  /** Give a cell of sub-calls its row, or bring that up to date; other cells have none. */
  label(widget: Cell): void {
    const row = this._rows.get(widget);
    if (row && !row.isDisposed) {
      row.refresh();
      return;
    }
    const mark = markOf(widget.model);
    const run = mark?.role === 'subcalls' ? this._run(mark.run) : undefined;
    if (!run || !(run.cell(widget.model.id)?.facts.flight || run.childrenOf(widget.model.id).length)) {
      return;
    }
    const made = new Row(run, widget.model.id, this._trans, this._show);
    this._rows.set(widget, made);
    addTo(widget, made);
  }

  private readonly _rows = new WeakMap<Cell, Row>();
}

function stateOf(child: Child, trans: TranslationBundle): string {
  if (child.phase !== 'ended') {
    return trans.__('running');
  }
  return outcomeWords(child.outcome, '', trans);
}
