/** What came of the things that a person asked of a run, in a few words, for a while. No DOM. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Ask, RunFacts } from './messages';

/** How long it is shown that something was done. */
export const SHOWN_MILLISECONDS = 8000;

interface Asked {
  n: number;
  ask: Ask;
  /** When the kernel was known to have heard it; `undefined`: not yet. */
  heard?: number;
}

export class Acknowledged {
  constructor(private readonly _trans: TranslationBundle) {}

  /** Something was asked for. */
  ask(n: number, ask: Ask): void {
    if (['stop', 'pause', 'resume', 'note', 'limit'].includes(ask.type)) {
      // limits that are set together are acknowledged together
      this._asked = ask.type === 'limit' ? this._asked.filter(other => other.ask.type === 'limit') : [];
      this._asked.push({ n, ask });
    }
  }

  /** The kernel has heard all up to this number. */
  hear(n: number, now = Date.now()): void {
    this._asked.filter(asked => asked.n <= n).forEach(asked => (asked.heard ??= now));
  }

  /** It was not done, and that was said otherwise. */
  refuse(n: number): void {
    this._asked = this._asked.filter(asked => asked.n !== n);
  }

  /** What there is to say now; mostly nothing. */
  words({ phase }: Pick<RunFacts, 'phase'>, names: Record<string, string>, now = Date.now()): string {
    if (phase === 'ended') {
      return '';
    }
    const shown = this._asked.filter(asked => asked.heard === undefined || isShown(asked, phase, now - asked.heard));
    return [...new Set(shown.map(asked => this._said(asked, names)))].join(' · ');
  }

  private _said({ ask, heard }: Asked, names: Record<string, string>): string {
    const trans = this._trans;
    const isHeard = heard !== undefined;
    switch (ask.type) {
      case 'stop':
        return trans.__('Stopping…');
      case 'pause':
        return isHeard ? trans.__('Pauses before the next reply') : trans.__('Pausing…');
      case 'resume':
        return isHeard ? trans.__('Goes on') : trans.__('Resuming…');
      case 'note':
        return isHeard
          ? trans.__('Message received: the model reads it with the next outputs')
          : trans.__('Message sent…');
      case 'limit': {
        const value = ask.value === null ? trans.__('no limit') : ask.value.toLocaleString();
        const words = `${names[ask.name] ?? ask.name}: ${value}`;
        return isHeard ? trans.__('Limit set: %1', words) : trans.__('Setting the limit: %1', words);
      }
      default:
        return '';
    }
  }

  private _asked: Asked[] = [];
}

/** What is still to come is said until it is there. */
function isShown({ ask }: Asked, phase: RunFacts['phase'], since: number): boolean {
  if (ask.type === 'stop') {
    return true;
  }
  return ask.type === 'pause' ? phase !== 'paused' : since < SHOWN_MILLISECONDS;
}
