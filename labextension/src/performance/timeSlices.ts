/** Work done in slices, so that a page can draw, and people can type, in between. */

const SLICE_MILLISECONDS = 12;
/** A page that nobody sees draws no frame. */
const UNSEEN_MILLISECONDS = 100;

/** What a step leaves: more to do, more to do after the next frame, or nothing. */
export type Left = 'more' | 'later' | 'nothing';

export class Slices {
  /** @param _step does a small piece of the work. */
  constructor(private readonly _step: () => Left) {}

  /** There is something to do: a first slice of it is done at once, unless one was done since the last frame. */
  wake(): void {
    this._isWanted = true;
    if (!this._isResting) {
      this._work();
    }
  }

  /** Do no more. */
  dispose(): void {
    this._isOver = true;
  }

  private _work(): void {
    if (!this._isWanted || this._isOver) {
      return;
    }
    const end = performance.now() + SLICE_MILLISECONDS;
    this._isWanted = false;
    this._isResting = true;
    try {
      let left: Left;
      do {
        left = this._step();
      } while (left === 'more' && performance.now() < end);
      this._isWanted ||= left !== 'nothing';
    } finally {
      this._rest();
    }
  }

  /** Until the page has drawn what there is. */
  private _rest(): void {
    const go = (): void => {
      if (this._isResting) {
        clearTimeout(timer);
        cancelAnimationFrame(frame);
        this._isResting = false;
        this._work();
      }
    };
    const timer = setTimeout(go, UNSEEN_MILLISECONDS);
    const frame = requestAnimationFrame(() => setTimeout(go));
  }

  private _isWanted = false;
  private _isResting = false;
  private _isOver = false;
}
