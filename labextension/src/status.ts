/** The status bar's item: what the run of the notebook in front is at, and what it has used. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { RunModel } from './model';

export class RunStatus extends Widget {
  constructor(
    private readonly _trans: TranslationBundle,
    show: () => void
  ) {
    super();
    this.addClass('rlm-status');
    this._button.type = 'button';
    this._button.className = 'rlm-status-button';
    this._button.title = _trans.__('Show the Runs of the Notebook');
    this._button.addEventListener('click', show);
    // numbers change all the time: only a new iteration, and the end, are said aloud
    this._said.className = 'rlm-status-said';
    this._said.setAttribute('role', 'status');
    this._said.setAttribute('aria-live', 'polite');
    this.node.append(this._button, this._said);
  }

  /** Show a run; without one, nothing. */
  follow(run: RunModel | undefined): void {
    this.setHidden(run === undefined);
    if (run) {
      const [words, ...numbers] = statusOf(run, this._trans);
      this._button.textContent = [words, ...numbers].join(' · ');
      if (this._said.textContent !== words) {
        this._said.textContent = words;
      }
    }
  }

  private readonly _button = document.createElement('button');
  private readonly _said = document.createElement('span');
}

/** `RLM: iteration 3 / 30`, and the numbers. */
export function statusOf(run: RunModel, trans: TranslationBundle): string[] {
  const { facts } = run;
  const of = facts.limits.max_iterations;
  const iteration = of ? `${facts.iteration} / ${of}` : `${facts.iteration}`;
  const tokens = facts.input_tokens + facts.output_tokens;
  return [
    run.isOver ? trans.__('RLM: ended at iteration %1', facts.iteration) : trans.__('RLM: iteration %1', iteration),
    trans.__('%1 tokens', tokens.toLocaleString()),
    ...(facts.cost === null ? [] : [`$${facts.cost.toFixed(2)}`])
  ];
}
