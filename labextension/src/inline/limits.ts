/** The limits that can be set while a run goes on: what is used, what they are, and a form to set them. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import type { RunModel } from '../model/run';

/** As the kernel knows them, in the order in which they are shown. */
export const ADJUSTABLE = [
  'max_iterations',
  'max_seconds',
  'max_cost',
  'max_tokens',
  'max_subcalls',
  'max_errors',
  'cell_seconds',
  'output_chars'
];
const NEEDED = new Set(['max_iterations', 'output_chars']);
const FRACTIONS = new Set(['max_cost', 'max_seconds', 'cell_seconds']);
const MAY_BE_ZERO = new Set(['max_subcalls']);

/** What a run has used, by the limit that it counts against. */
export function usedOf(run: RunModel): Record<string, number> {
  const { facts } = run;
  return {
    max_iterations: facts.iteration,
    max_tokens: facts.input_tokens + facts.output_tokens,
    max_cost: facts.cost ?? 0,
    max_seconds: run.seconds ?? 0,
    max_subcalls: facts.subcalls
  };
}

/** A number as people read it, with the digits that suit its limit. */
export function written(limit: string, value: number): string {
  const digits = limit === 'max_cost' ? 4 : FRACTIONS.has(limit) ? 1 : 0;
  return value.toLocaleString(undefined, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function limitNames(trans: TranslationBundle): Record<string, string> {
  return {
    max_iterations: trans.__('Iterations'),
    max_seconds: trans.__('Seconds'),
    max_cost: trans.__('US dollars'),
    max_tokens: trans.__('Tokens'),
    max_subcalls: trans.__('Sub-calls'),
    max_errors: trans.__('Failed iterations in a row'),
    cell_seconds: trans.__('Seconds for one cell'),
    output_chars: trans.__('Characters of output shown to the model')
  };
}

export type Values = Record<string, string>;
type Changes = Record<string, number | null>;

/** What was typed into the form, less what is as it was; or, in a line, what is wrong with it. */
export function readLimits(
  typed: Values,
  now: Record<string, number>,
  used: Record<string, number>,
  trans: TranslationBundle
): Changes | string {
  const names = limitNames(trans);
  const changes: Changes = {};
  for (const [limit, text] of Object.entries(typed)) {
    const name = names[limit];
    if (!text.trim()) {
      if (NEEDED.has(limit)) {
        return trans.__('%1: a number is needed here.', name);
      }
      if (now[limit] !== undefined) {
        changes[limit] = null;
      }
      continue;
    }
    const value = Number(text.trim());
    if (!Number.isFinite(value)) {
      return trans.__('%1: “%2” is not a number.', name, text.trim());
    }
    if (!FRACTIONS.has(limit) && !Number.isInteger(value)) {
      return trans.__('%1: a whole number is needed.', name);
    }
    if (value < 0 || (value === 0 && !MAY_BE_ZERO.has(limit))) {
      return trans.__('%1: it must be more than zero.', name);
    }
    if (value !== now[limit] && value < (used[limit] ?? 0)) {
      const already = written(limit, used[limit]);
      return trans.__('%1: %2 are used already. To end the run now, use Stop.', name, already);
    }
    if (value !== now[limit]) {
      changes[limit] = value;
    }
  }
  return changes;
}

/** Let a person set limits, until there is nothing wrong with them or they think better of it. */
export async function askLimits(run: RunModel, trans: TranslationBundle): Promise<Changes> {
  let typed: Values = Object.fromEntries(
    ADJUSTABLE.map(limit => [limit, run.facts.limits[limit] === undefined ? '' : `${run.facts.limits[limit]}`])
  );
  let wrong = '';
  for (;;) {
    const result = await showDialog({
      title: trans.__('Limits of the run'),
      body: new LimitsForm(run, typed, wrong, trans),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Set') })],
      focusNodeSelector: 'input'
    });
    if (!result.button.accept || !result.value) {
      return {};
    }
    typed = result.value;
    const read = readLimits(typed, run.facts.limits, usedOf(run), trans);
    if (typeof read !== 'string') {
      return read;
    }
    wrong = read;
  }
}

class LimitsForm extends Widget implements Dialog.IBodyWidget<Values> {
  constructor(run: RunModel, typed: Values, wrong: string, trans: TranslationBundle) {
    super();
    this.addClass('rlm-limits');
    const names = limitNames(trans);
    const used = usedOf(run);
    const table = document.createElement('table');
    table.append(row('th', ['', trans.__('Used'), trans.__('Limit')]));
    for (const limit of ADJUSTABLE) {
      const input = document.createElement('input');
      input.className = 'jp-mod-styled';
      input.inputMode = 'decimal';
      input.name = limit;
      input.value = typed[limit];
      input.placeholder = NEEDED.has(limit) ? '' : trans.__('no limit');
      const label = document.createElement('label');
      label.htmlFor = input.id = `rlm-limit-${limit}`;
      label.textContent = names[limit];
      const isKnown = limit in used && (limit !== 'max_cost' || run.facts.cost !== null);
      table.append(row('td', [label, isKnown ? written(limit, used[limit]) : '–', input]));
      this._inputs.push(input);
    }
    this.node.append(table);
    if (wrong) {
      const problem = document.createElement('p');
      problem.className = 'rlm-limits-problem';
      problem.setAttribute('role', 'alert');
      problem.textContent = wrong;
      this.node.append(problem);
    }
  }

  getValue(): Values {
    return Object.fromEntries(this._inputs.map(input => [input.name, input.value]));
  }

  private readonly _inputs: HTMLInputElement[] = [];
}

function row(kind: 'td' | 'th', content: (string | Node)[]): HTMLTableRowElement {
  const node = document.createElement('tr');
  node.append(
    ...content.map(item => {
      const cell = document.createElement(kind);
      cell.append(item);
      return cell;
    })
  );
  return node;
}
