/** What somebody looks for in runs: words in what was written and asked, or failures. No DOM. */

import type { LiveCell, Subcall } from '../protocol/messages';
import { hasFailed } from './failures';
import type { RunModel } from './run';

const FAILED = new Set(['error', 'interrupted', 'died']);

export class Filter {
  constructor(text = '', errors = false) {
    this._words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.errors = errors;
  }

  /** Failures only. */
  readonly errors: boolean;

  /** Whether anything is left out. */
  get isOn(): boolean {
    return this.errors || this._words.length > 0;
  }

  /** Tells filters apart. */
  get key(): string {
    return `${this.errors} ${this._words.join(' ')}`;
  }

  cell(cell: LiveCell): boolean {
    return (!this.errors || FAILED.has(cell.status)) && this._has(cell.source);
  }

  call(call: Subcall): boolean {
    return (!this.errors || call.failed) && this._has(`${call.prompt} ${call.model}`);
  }

  /** Whether a run itself is meant, and not only what is in it: its prompt has the words. */
  run(run: RunModel): boolean {
    return (!this.errors || hasFailed(run)) && this._has(run.facts.prompt);
  }

  /** All words, wherever they stand. */
  private _has(text: string): boolean {
    const lower = this._words.length ? text.toLowerCase() : '';
    return this._words.every(word => lower.includes(word));
  }

  private readonly _words: string[];
}
