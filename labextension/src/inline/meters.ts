/** What a run has used of its limits, as bars. */

import type { TranslationBundle } from '@jupyterlab/translation';

import { usedOf, written } from './limits';
import type { RunModel } from '../model/run';

/** The part of a limit from which on a run is close to it. */
const CLOSE = 0.8;

/** A bar for each limit, and a number for what has none. */
export function meters(run: RunModel, trans: TranslationBundle): HTMLElement {
  const names: Record<string, string> = {
    max_iterations: trans.__('iterations'),
    max_tokens: trans.__('tokens'),
    max_cost: trans.__('US dollars'),
    max_seconds: trans.__('seconds'),
    max_subcalls: trans.__('sub-calls')
  };
  const node = document.createElement('div');
  node.className = 'rlm-meters';
  node.title = Object.entries(run.facts.models)
    .map(([model, tokens]) => trans.__('%1: %2 tokens', model, tokens.toLocaleString()))
    .join('\n');
  for (const [limit, used] of Object.entries(usedOf(run))) {
    const most = run.facts.limits[limit];
    if (!most && !used) {
      continue;
    }
    const words = document.createElement('span');
    const said = written(limit, used);
    words.textContent = most ? `${said} / ${most.toLocaleString()} ${names[limit]}` : `${said} ${names[limit]}`;
    node.append(words);
    const meter = document.createElement(most ? 'meter' : 'span');
    if (meter instanceof HTMLMeterElement) {
      meter.max = most;
      meter.high = most * CLOSE;
      meter.value = used;
      meter.setAttribute('aria-label', words.textContent);
      words.classList.toggle('rlm-meters-close', used > most * CLOSE);
    }
    node.append(meter);
  }
  return node;
}

/** Tokens, cost and time of a part of a run, as far as there are any. */
export function numbersOf(
  part: { tokens?: number; cost?: number | null; seconds?: number },
  trans: TranslationBundle
): string[] {
  return [
    ...(part.tokens ? [trans.__('%1 tokens', part.tokens.toLocaleString())] : []),
    ...(part.cost ? [`$${part.cost.toFixed(4)}`] : []),
    ...(part.seconds === undefined ? [] : [`${part.seconds.toFixed(1)}\u00a0s`])
  ];
}
