/** The bar below a cell that asks: what its run is at, and what can be done about it. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { numbersOf } from './meters';
import { notebookOf } from '../actions/openFile';
import { labelsOf } from './barButtons';
import type { Actions, Name } from './barButtons';
import type { RunModel } from '../model/run';
import { outcomeWords } from '../model/outcomes';
import { errorsOf } from '../model/failures';

const TICK_MILLISECONDS = 1000;
/** How long the end of a run waits for its last cells, before it is said all the same. */
const LAST_MILLISECONDS = 20_000;
/** Where one of these goes away while it has the focus, the next that is there gets it; never one that ends the run. */
const SUCCESSORS: Partial<Record<Name, Name[]>> = {
  pause: ['resume'],
  resume: ['pause'],
  approve: ['pause', 'resume'],
  refuse: ['pause', 'resume']
};

export class RunBar extends Widget {
  constructor(
    readonly run: RunModel,
    private readonly _actions: Actions,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('rlm-bar');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', _trans.__('Run of the model'));
    this._words.className = 'rlm-bar-words';
    this._words.setAttribute('role', 'status');
    this._words.setAttribute('aria-live', 'polite');
    this._words.addEventListener('click', () => this._actions.showProposed());
    // what changes all the time is shown, and not said aloud
    this._numbers.className = 'rlm-bar-numbers';
    this._clock.className = 'rlm-bar-clock';
    this._clock.setAttribute('aria-hidden', 'true');
    this._errors.type = 'button';
    this._errors.className = 'rlm-bar-errors';
    this._errors.dataset.lmSuppressShortcuts = 'true';
    this._errors.addEventListener('click', () => this._actions.showFailed());
    this._buttons.className = 'rlm-bar-buttons';
    this._said.className = 'rlm-bar-said';
    this._said.setAttribute('role', 'status');
    this._said.setAttribute('aria-live', 'polite');
    this.node.append(this._words, this._errors, this._numbers, this._clock, this._buttons, this._said);
    this.refresh();
  }

  /** Show what the model says now. */
  refresh(): void {
    const { run } = this;
    const isWhole = this._isWhole();
    say(this._words, isWhole ? wordsOf(run, this._trans) : this._trans.__('The last cells are being written'));
    const numbers = [...usedBy(run, this._trans), run.facts.model, speedOf(run, this._trans)];
    say(this._numbers, run.isOver ? '' : numbers.filter(Boolean).join(' · '));
    this._numbers.title = this._numbers.textContent ?? ''; // where there is no room for all of it
    // why it failed stands in the cell's output, with the way to the saved run
    this._words.title = run.isAsking ? this._trans.__('Go to the cell that waits') : reasonOf(run);
    this._countErrors();
    this.node.dataset.rlmPhase = run.isAsking ? 'proposed' : run.facts.phase;
    this.node.dataset.rlmOutcome = isWhole ? (run.facts.outcome ?? '') : '';
    const offered = this._offered();
    if (offered.join() !== this._shown.join()) {
      this._offer(offered);
    }
    this._shown.forEach(name => this._name(name));
    this._show();
    if (run.isOver && isWhole) {
      window.clearInterval(this._timer);
      this._timer = 0;
    } else {
      // one that is resumed goes on after the end that is on record
      this._timer ||= window.setInterval(() => this._tick(), TICK_MILLISECONDS);
    }
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    super.dispose();
  }

  /** Whether what it came to can be said: not before the cells that led to it stand there. */
  private _isWhole(): boolean {
    const { run } = this;
    if (!run.isOver || run.facts.outcome === 'cut' || run.facts.outcome === 'closed') {
      return true;
    }
    this._ended ||= Date.now();
    const isWritten = !run.missed && this._actions.isWritten();
    return isWritten || Date.now() - this._ended > LAST_MILLISECONDS;
  }

  /** Failures are seen where the run is asked for, too: Notebook has no panel's tab that could point them out. */
  private _countErrors(): void {
    const count = errorsOf(this.run.own, this.run);
    const words = this._trans._n('%1 error: go to the first', '%1 errors: go to the first', count);
    this._errors.hidden = !count;
    say(this._errors, `✕\u00a0${this._trans._n('%1 error', '%1 errors', count)}`);
    if (this._errors.title !== words) {
      this._errors.title = words;
      this._errors.setAttribute('aria-label', words);
    }
  }

  private _offered(): Name[] {
    if (this.run.isOver) {
      const hasNotebook = notebookOf(this.run) !== null;
      const hasCells = this.run.cells.length > 0; // else there is nothing to fold
      return [...(hasNotebook ? ['open' as const] : []), ...(hasCells ? (['fold', 'remove'] as const) : [])];
    }
    const pausing: Name = this.run.facts.phase === 'paused' ? 'resume' : 'pause';
    const deciding: Name[] = this.run.isAsking ? ['approve', 'refuse'] : [];
    return [...deciding, 'stop', pausing, 'note', 'limits', 'fold'];
  }

  /**
   * Have these buttons and no others; the focus stays where somebody is.
   *
   * Those that stay are not put there anew: a press on one whose mouse button is still down would be lost.
   */
  private _offer(names: Name[]): void {
    const focused = this._shown.find(name => this._made.get(name) === document.activeElement);
    this._shown.filter(name => !names.includes(name)).forEach(name => this._button(name).remove());
    this._shown = names;
    let at = this._buttons.firstChild;
    for (const name of names) {
      const button = this._button(name);
      if (button === at) {
        at = at.nextSibling;
      } else {
        this._buttons.insertBefore(button, at);
      }
    }
    if (focused) {
      const next = [focused, ...(SUCCESSORS[focused] ?? []), names[0]].find(name => names.includes(name));
      if (next) {
        this._button(next).focus();
      }
    }
  }

  private _button(name: Name): HTMLButtonElement {
    const known = this._made.get(name);
    if (known) {
      return known;
    }
    const button = document.createElement('button');
    button.type = 'button';
    button.className = `rlm-button rlm-${name}`;
    // keys on it are meant for it: a notebook takes each that its shortcuts know from whatever has the focus
    button.dataset.lmSuppressShortcuts = 'true';
    button.addEventListener('click', () => this._actions[name]());
    this._made.set(name, button);
    this._name(name);
    return button;
  }

  /** Say what a button does now. */
  private _name(name: Name): void {
    const button = this._made.get(name);
    if (!button) {
      return;
    }
    const [isFolded, canApprove] = [this._actions.isFolded(), this._actions.canApprove()];
    const state = { isFolded, isCall: this.run.facts.call !== null, canApprove };
    const [label, caption] = labelsOf(name, state, this._trans);
    if (button.textContent !== label || button.title !== caption) {
      button.textContent = label;
      button.title = caption;
      button.setAttribute('aria-label', `${label}: ${caption}`);
    }
    button.disabled = name === 'approve' && !canApprove;
    if (name === 'fold') {
      button.setAttribute('aria-expanded', `${!isFolded}`);
    }
  }

  private _tick(): void {
    if (this.run.isOver) {
      this.refresh();
    } else {
      this._show();
    }
  }

  private _show(): void {
    say(this._said, this._actions.said());
    const { seconds, isOver } = this.run;
    this._clock.textContent = seconds === null ? '' : `${seconds.toFixed(isOver ? 1 : 0)} s`;
  }

  private readonly _words = document.createElement('span');
  private readonly _numbers = document.createElement('span');
  private readonly _clock = document.createElement('span');
  private readonly _said = document.createElement('span');
  private readonly _buttons = document.createElement('span');
  private readonly _errors = document.createElement('button');
  private readonly _made = new Map<Name, HTMLButtonElement>();
  private _timer = 0;
  private _shown: Name[] = [];
  /** When the run was first seen to be over. */
  private _ended = 0;
}

function say(node: HTMLElement, words: string): void {
  if (node.textContent !== words) {
    node.textContent = words;
  }
}

/** What a run has used, as far as there is anything. */
export function usedBy({ facts }: RunModel, trans: TranslationBundle): string[] {
  return numbersOf({ tokens: facts.input_tokens + facts.output_tokens, cost: facts.cost }, trans);
}

/** What a run is at, in a line. */
export function wordsOf(run: RunModel, trans: TranslationBundle): string {
  const { facts } = run;
  const of = facts.limits.max_iterations ? ` / ${facts.limits.max_iterations}` : '';
  const words = [titleOf(run, trans)];
  if (facts.iteration) {
    words.push(
      run.isOver
        ? trans._n('%1 iteration', '%1 iterations', facts.iteration)
        : trans.__('iteration %1', `${facts.iteration}${of}`)
    );
  }
  if (facts.in_flight) {
    words.push(trans._n('%1 sub-call in flight', '%1 sub-calls in flight', facts.in_flight));
  }
  if (facts.remark && facts.phase !== 'starting') {
    words.push(facts.remark);
  }
  if (facts.outcome === 'cut' && facts.run_id) {
    const address = facts.base_url ? ` --base-url ${facts.base_url}` : '';
    words.push(trans.__('to resume it: %1', `%rlm_resume ${facts.run_id}${address}`));
  }
  return words.join(' · ');
}

/** How fast a reply arrives: of one that is slow it is seen that it does. */
export function speedOf(run: RunModel, trans: TranslationBundle): string {
  const { first, rate, phase } = run.facts;
  const words: string[] = [];
  if (phase === 'writing' && first !== null) {
    words.push(trans.__('first words after %1 s', first.toFixed(1)));
  }
  if (phase === 'writing' && rate !== null) {
    words.push(trans.__('%1 tokens/s', `${rate}`));
  }
  return words.join(' · ');
}

/** Why a run failed, where it did. */
export function reasonOf({ facts }: RunModel): string {
  return facts.outcome === 'failed' ? facts.message : '';
}

function titleOf(run: RunModel, trans: TranslationBundle): string {
  const { phase, outcome, message, remark } = run.facts;
  if (run.facts.call && !run.isOver) {
    return trans.__('A call of %1 waits for your approval', run.facts.call.tool);
  }
  switch (phase) {
    case 'starting':
      return remark || trans.__('Starting a kernel');
    case 'writing':
      return run.facts.is_waiting ? trans.__('Waiting for the model') : trans.__('The model writes');
    case 'running':
      return trans.__('A cell runs');
    case 'proposed':
      return trans.__('A cell waits for your approval');
    case 'paused':
      return trans.__('Paused');
    case 'ended':
      break;
  }
  return outcomeWords(outcome, message, trans);
}
