/** The bar below a cell that asks: what its run is at, and what can be done about it. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { RunModel } from './model';

/** What the buttons do. */
export interface Actions {
  stop(): void;
  pause(): void;
  resume(): void;
  note(): void;
  fold(): void;
  remove(): void;
  approve(): void;
  refuse(): void;
}

const TICK_MILLISECONDS = 1000;

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
    this._clock.className = 'rlm-bar-clock';
    this._clock.setAttribute('aria-hidden', 'true');
    this._buttons.className = 'rlm-bar-buttons';
    this.node.append(this._words, this._clock, this._buttons);
    this._timer = window.setInterval(() => this._tick(), TICK_MILLISECONDS);
    this.refresh();
  }

  /** Show what the model says now. */
  refresh(): void {
    const { run } = this;
    const words = wordsOf(run, this._trans);
    if (this._words.textContent !== words) {
      this._words.textContent = words;
    }
    this.node.dataset.rlmPhase = run.facts.phase;
    this.node.dataset.rlmOutcome = run.facts.outcome ?? '';
    const offered = this._offered().join();
    if (offered !== this._shown) {
      this._shown = offered;
      this._buttons.replaceChildren(...this._offered().map(name => this._button(name)));
    }
    this._tick();
    if (run.isOver) {
      window.clearInterval(this._timer);
    }
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    super.dispose();
  }

  private _offered(): (keyof Actions)[] {
    if (this.run.isOver) {
      return ['fold', 'remove'];
    }
    const pausing: keyof Actions = this.run.facts.phase === 'paused' ? 'resume' : 'pause';
    const deciding: (keyof Actions)[] = this.run.facts.phase === 'proposed' ? ['approve', 'refuse'] : [];
    return [...deciding, 'stop', pausing, 'note', 'fold'];
  }

  private _button(name: keyof Actions): HTMLButtonElement {
    const trans = this._trans;
    const labels: Record<keyof Actions, [string, string]> = {
      stop: [trans.__('Stop'), trans.__('End the run with the best answer so far')],
      pause: [trans.__('Pause'), trans.__('Wait before the next reply')],
      resume: [trans.__('Resume'), trans.__('Let the run go on')],
      note: [trans.__('Note…'), trans.__('Tell the model something; it reads it with the next outputs')],
      fold: [trans.__('Fold'), trans.__('Hide or show the cells of this run')],
      remove: [trans.__('Remove'), trans.__("Remove this run's cells; this can be undone")],
      approve: [trans.__('Approve'), trans.__('Run the cell that waits, as it stands there now')],
      refuse: [trans.__('Refuse…'), trans.__('Do not run the cell that waits, and say why')]
    };
    const button = document.createElement('button');
    button.type = 'button';
    button.className = `rlm-button rlm-${name}`;
    [button.textContent, button.title] = labels[name];
    button.setAttribute('aria-label', `${labels[name][0]}: ${labels[name][1]}`);
    button.addEventListener('click', () => this._actions[name]());
    return button;
  }

  private _tick(): void {
    const seconds = this.run.facts.seconds ?? (Date.now() - this.run.began) / 1000;
    this._clock.textContent = `${seconds.toFixed(this.run.isOver ? 1 : 0)} s`;
  }

  private readonly _words = document.createElement('span');
  private readonly _clock = document.createElement('span');
  private readonly _buttons = document.createElement('span');
  private readonly _timer: number;
  private _shown = '';
}

/** What a run is at, in a line. */
export function wordsOf(run: RunModel, trans: TranslationBundle): string {
  const { facts } = run;
  const of = facts.limits.max_iterations ? ` / ${facts.limits.max_iterations}` : '';
  const words = [titleOf(run, trans)];
  if (facts.iteration) {
    words.push(trans.__('iteration %1', `${facts.iteration}${run.isOver ? '' : of}`));
  }
  if (facts.in_flight) {
    words.push(trans._n('%1 sub-call in flight', '%1 sub-calls in flight', facts.in_flight));
  }
  return words.join(' · ');
}

function titleOf(run: RunModel, trans: TranslationBundle): string {
  const { phase, outcome, message } = run.facts;
  switch (phase) {
    case 'starting':
      return trans.__('Starting a kernel');
    case 'writing':
      return trans.__('The model writes');
    case 'running':
      return trans.__('A cell runs');
    case 'proposed':
      return trans.__('A cell waits for your approval');
    case 'paused':
      return trans.__('Paused');
    case 'ended':
      break;
  }
  switch (outcome) {
    case 'answered':
      return trans.__('Answered');
    case 'cancelled':
      return trans.__('Stopped');
    case 'failed':
      return message ? trans.__('Failed: %1', message) : trans.__('Failed');
    case 'cut':
      return trans.__('The kernel went away');
    case 'terminated':
      return trans.__('Ended by its policy');
    default:
      return trans.__('Ended by the limit: %1', outcome ?? '');
  }
}
