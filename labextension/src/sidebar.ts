/** The side panel: the runs of the notebook in front, as trees, with what they used against their limits. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { wordsOf } from './bar';
import type { LiveCell, Subcall } from './events';
import type { RunModel } from './model';
import type { LiveNotebook } from './panel';

const REST_MILLISECONDS = 250;

/** What a run has used, by the limit that it counts against. */
export function usedOf(run: RunModel): Record<string, number> {
  const { facts } = run;
  return {
    max_iterations: facts.iteration,
    max_tokens: facts.input_tokens + facts.output_tokens,
    max_cost: facts.cost ?? 0,
    max_seconds: facts.seconds ?? (Date.now() - run.began) / 1000,
    max_subcalls: facts.subcalls
  };
}

export class RunsPanel extends Widget {
  constructor(private readonly _trans: TranslationBundle) {
    super();
    this.id = 'rlm-runs';
    this.addClass('rlm-runs');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', _trans.__('Runs of models'));
    this.title.caption = _trans.__('Runs of models');
  }

  /** Show the runs of this notebook. */
  watch(notebook: LiveNotebook | undefined): void {
    this._notebook?.changed.disconnect(this._soon, this);
    this._notebook = notebook;
    notebook?.changed.connect(this._soon, this);
    this.update();
  }

  protected override onAfterShow(): void {
    this.update();
  }

  protected override onUpdateRequest(): void {
    if (!this.isVisible) {
      return;
    }
    const runs = this._notebook?.runs.reverse() ?? [];
    const empty = document.createElement('p');
    empty.className = 'rlm-runs-empty';
    empty.textContent = this._trans.__('No run yet: %rlm or %%rlm in a cell begins one.');
    this.node.replaceChildren(...(runs.length ? runs.map(run => this._run(run)) : [empty]));
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

  private _run(run: RunModel): HTMLElement {
    const { facts } = run;
    const node = this._fold(run.run, facts.prompt || this._trans.__('Starting'), [wordsOf(run, this._trans)], true);
    node.classList.add('rlm-run');
    node.dataset.rlmPhase = facts.phase;
    node.dataset.rlmOutcome = facts.outcome ?? '';
    node.append(this._meters(run));
    const cells = run.cells;
    const iterations = [...new Set(cells.filter(cell => cell.facts.role !== 'answer').map(c => c.facts.iteration))];
    for (const iteration of iterations) {
      node.append(this._iteration(run, iteration, cells));
    }
    const answer = cells.find(cell => cell.facts.role === 'answer');
    if (answer) {
      node.append(this._link(answer.id, this._trans.__('Answer')));
    }
    return node;
  }

  private _iteration(run: RunModel, iteration: number, all: LiveCell[]): HTMLElement {
    const cells = all.filter(cell => cell.facts.iteration === iteration && cell.facts.role !== 'answer');
    const [first] = cells;
    const numbers = numbersOf(first.facts.tokens, first.facts.cost, first.facts.seconds, this._trans);
    const title = this._trans.__('Iteration %1', iteration);
    const node = this._fold(`${run.run}-${iteration}`, title, numbers, iteration === run.facts.iteration);
    for (const cell of cells) {
      if (cell.facts.role === 'subcalls') {
        node.append(...(cell.facts.calls ?? []).map(call => this._subcall(cell.id, call)));
      } else {
        const line = cell.source.split('\n').find(text => text.trim()) ?? '';
        const link = this._link(cell.id, line.slice(0, 60));
        link.dataset.rlmStatus = cell.status;
        link.classList.add(cell.type === 'code' ? 'rlm-runs-code' : 'rlm-runs-prose');
        node.append(link);
      }
    }
    return node;
  }

  private _subcall(cellId: string, call: Subcall): HTMLElement {
    const name = call.child ? this._trans.__('child') : call.kind === 'rlm' ? 'rlm_query' : 'llm_query';
    const numbers = numbersOf(call.tokens, call.cost, call.seconds, this._trans);
    const link = this._link(cellId, [`${name}: ${call.prompt}`, call.model, ...numbers].filter(Boolean).join(' · '));
    link.classList.add('rlm-runs-subcall');
    link.dataset.rlmStatus = call.failed ? 'error' : 'ok';
    return link;
  }

  /** A bar for each limit. */
  private _meters(run: RunModel): HTMLElement {
    const trans = this._trans;
    const names: Record<string, string> = {
      max_iterations: trans.__('iterations'),
      max_tokens: trans.__('tokens'),
      max_cost: trans.__('US dollars'),
      max_seconds: trans.__('seconds'),
      max_subcalls: trans.__('sub-calls')
    };
    const node = document.createElement('div');
    node.className = 'rlm-meters';
    for (const [limit, used] of Object.entries(usedOf(run))) {
      const most = run.facts.limits[limit];
      if (!most && !used) {
        continue;
      }
      const digits = limit === 'max_cost' ? 4 : limit === 'max_seconds' ? 1 : 0;
      const words = document.createElement('span');
      const said = used.toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });
      words.textContent = most ? `${said} / ${most.toLocaleString()} ${names[limit]}` : `${said} ${names[limit]}`;
      node.append(words);
      const meter = document.createElement(most ? 'meter' : 'span');
      if (meter instanceof HTMLMeterElement) {
        meter.max = most;
        meter.high = most * 0.8;
        meter.value = used;
        meter.setAttribute('aria-label', words.textContent);
      }
      node.append(meter);
    }
    return node;
  }

  private _fold(key: string, title: string, facts: string[], open: boolean): HTMLDetailsElement {
    const node = document.createElement('details');
    node.open = this._open.get(key) ?? open;
    node.addEventListener('toggle', () => this._open.set(key, node.open));
    const summary = document.createElement('summary');
    const name = document.createElement('b');
    name.textContent = title;
    const rest = document.createElement('span');
    rest.textContent = facts.length ? ` · ${facts.join(' · ')}` : '';
    summary.append(name, rest);
    node.append(summary);
    return node;
  }

  private _link(cellId: string, text: string): HTMLButtonElement {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'rlm-runs-link';
    button.textContent = text;
    button.title = this._trans.__('Go to the cell');
    button.addEventListener('click', () => void this._notebook?.jump(cellId));
    return button;
  }

  private _notebook: LiveNotebook | undefined;
  private _due = false;
  /** What somebody has folded or unfolded. */
  private readonly _open = new Map<string, boolean>();
}

function numbersOf(
  tokens: number | undefined,
  cost: number | null | undefined,
  seconds: number | undefined,
  trans: TranslationBundle
): string[] {
  return [
    ...(tokens ? [trans.__('%1 tokens', tokens.toLocaleString())] : []),
    ...(cost ? [`$${cost.toFixed(4)}`] : []),
    ...(seconds === undefined ? [] : [`${seconds.toFixed(1)} s`])
  ];
}
