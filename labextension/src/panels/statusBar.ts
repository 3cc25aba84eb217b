/** The status bar's item: what the run of the notebook in front is at, and what it has used. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { usedBy } from '../inline/bar';
import type { RunModel } from '../model/run';
import { outcomeWords } from '../model/outcomes';

export class RunStatus extends Widget {
  constructor(
    private readonly _trans: TranslationBundle,
    show: () => void
  ) {
    super();
    this.addClass('rlm-status');
    this._button.type = 'button';
    this._button.className = 'rlm-status-button';
    this._button.title = _trans.__('Show the runs of this notebook');
    this._button.addEventListener('click', show);
    // numbers change all the time: only a new iteration, and the end, are said aloud
    this._said.className = 'rlm-status-said';
    this._said.setAttribute('role', 'status');
    this._said.setAttribute('aria-live', 'polite');
    this.node.append(this._button, this._said);
  }

  /** Whether there is something to show: the status bar itself shows and hides its items. */
  get isOn(): boolean {
    return this._isOn;
  }

  get turned(): ISignal<this, void> {
    return this._turned;
  }

  /** Show a run; without one, nothing. */
  follow(run: RunModel | undefined): void {
    if (this._isOn !== (run !== undefined)) {
      this._isOn = !this._isOn;
      this._turned.emit();
    }
    if (run) {
      const [words, ...numbers] = statusOf(run, this._trans);
      const text = [words, ...numbers].join(' · ');
      this._button.textContent = text;
      // a long one is cut off
      this._button.title = `${text}\n${this._trans.__('Show the runs of this notebook')}`;
      if (this._said.textContent !== words) {
        this._said.textContent = words;
      }
    }
  }

  private readonly _button = document.createElement('button');
  private readonly _said = document.createElement('span');
  private readonly _turned = new Signal<this, void>(this);
  private _isOn = false;
}

/** `RLM: iteration 3 / 30`, and the numbers. */
export function statusOf(run: RunModel, trans: TranslationBundle): string[] {
  const { facts } = run;
  const of = facts.limits.max_iterations;
  const iteration = of ? `${facts.iteration} / ${of}` : `${facts.iteration}`;
  const begun = facts.iteration ? trans.__('RLM: iteration %1', iteration) : trans.__('RLM: starting');
  const ended = trans.__('RLM: %1', outcomeWords(facts.outcome, facts.message, trans));
  // what waits for a person comes first: a long text is cut off
  const waiting = waitingWords(run, trans);
  const under = waiting ? [waiting, trans.__('iteration %1', iteration)] : [begun];
  return [...(run.isOver ? [ended] : under), ...usedBy(run, trans)];
}

function waitingWords({ isAsking, facts }: RunModel, trans: TranslationBundle): string {
  if (isAsking) {
    return facts.call
      ? trans.__('RLM: a call of %1 waits for your approval', facts.call.tool)
      : trans.__('RLM: a cell waits for your approval');
  }
  return facts.phase === 'paused' ? trans.__('RLM: paused') : '';
}
