/** What people ask of a run: numbered, and said again until the kernel has heard it. No DOM, no comm. */

import type { Ask, Asked, NumberedAsk, RunFacts } from './messages';

/** Until something is said for the second time; then each time half as long again, up to the most. */
export const REPEAT_MILLISECONDS = 1000;
const MOST_MILLISECONDS = 30_000;
const MOST_GREETINGS = 5;

export class Asks {
  /**
   * @param _send takes a message to the kernel, which may lose it.
   * @param page names who numbers: new each time, so that a reloaded page's numbers are not taken for old ones.
   */
  constructor(
    private readonly _send: (message: Asked) => void,
    readonly page: string = token()
  ) {}

  /** Those that the kernel has not heard, as far as is known. */
  get unheard(): readonly NumberedAsk[] {
    return this._unheard;
  }

  /** Say that this page shows the run. */
  greet(): void {
    this._isGreeting = true;
    this._say();
  }

  /** Ask for something; returns its number. */
  ask(ask: Ask): number {
    const n = ++this._last;
    this._unheard.push({ ...ask, n });
    this._rest = REPEAT_MILLISECONDS;
    this._say();
    return n;
  }

  /** The kernel says what it has heard. */
  hear(facts: RunFacts): void {
    const heard = facts.heard[this.page];
    if (heard === undefined) {
      return;
    }
    this._isGreeting = false;
    this._unheard = this._unheard.filter(({ n }) => n > heard);
    if (!this._unheard.length) {
      this._wait();
    }
  }

  /** The run is over: only what can be done to one that is, is said on. Returns what was not heard. */
  drop(keep: (ask: NumberedAsk) => boolean = () => false): NumberedAsk[] {
    const dropped = this._unheard.filter(ask => !keep(ask));
    // the kernel waits for the numbers in order: what is left out goes as nothing
    this._unheard = this._unheard.some(keep)
      ? this._unheard.map(ask => (keep(ask) ? ask : { type: 'nothing', n: ask.n }))
      : [];
    this._isGreeting = false;
    if (!this._unheard.length) {
      this._wait();
    }
    return dropped.filter(ask => ask.type !== 'nothing');
  }

  /** All that was not heard, in one message and in order: what was lost holds up nothing that came after it. */
  private _say(): void {
    this._send({ type: 'asks', page: this.page, asks: [...this._unheard] });
    this._wait(() => {
      this._rest = Math.min(this._rest * 1.5, MOST_MILLISECONDS);
      this._greetings += 1;
      if (this._unheard.length || (this._isGreeting && this._greetings < MOST_GREETINGS)) {
        this._say();
      }
    });
  }

  private _wait(then?: () => void): void {
    clearTimeout(this._timer);
    this._timer = then ? setTimeout(then, this._rest) : undefined;
  }

  private _unheard: NumberedAsk[] = [];
  private _last = 0;
  private _isGreeting = false;
  private _greetings = 0;
  private _rest = REPEAT_MILLISECONDS;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}

function token(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(4)), byte => byte.toString(16).padStart(2, '0')).join('');
}
