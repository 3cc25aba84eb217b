/** The buttons of a run's bar: what they do, and what they are called. */

import type { TranslationBundle } from '@jupyterlab/translation';

/** What the buttons do. */
export interface Actions {
  stop(): void;
  pause(): void;
  resume(): void;
  note(): void;
  limits(): void;
  fold(): void;
  remove(): void;
  /** Open the run's own notebook. */
  open(): void;
  approve(): void;
  refuse(): void;
  /** Whether the run's cells are hidden. */
  isFolded(): boolean;
  /** Whether what waits for approval is there to be seen. */
  canApprove(): boolean;
  /** What came of what was asked last. */
  said(): string;
  /** Go to the cell that waits for approval. */
  showProposed(): void;
  /** Go to the first cell that failed. */
  showFailed(): void;
  /** Whether the notebook has all that the page knows of the run. */
  isWritten(): boolean;
}
export type Name = Exclude<
  keyof Actions,
  'isFolded' | 'canApprove' | 'isWritten' | 'said' | 'showProposed' | 'showFailed'
>;

/** What a button's name depends on. */
interface State {
  isFolded: boolean;
  isCall: boolean;
  canApprove: boolean;
}

/** What a button is called, and what it does. */
export function labelsOf(
  name: Name,
  { isFolded, isCall, canApprove }: State,
  trans: TranslationBundle
): [string, string] {
  switch (name) {
    case 'stop':
      return [trans.__('Stop'), trans.__('End the run with the best answer so far')];
    case 'pause':
      return [trans.__('Pause'), trans.__('Wait before the next reply')];
    case 'resume':
      return [trans.__('Resume'), trans.__('Let the run go on')];
    case 'note':
      return [trans.__('Message…'), trans.__('Send the model a message; it reads it with the next outputs')];
    case 'limits':
      return [trans.__('Limits…'), trans.__('See what is used, and raise or lower a limit')];
    case 'fold':
      return isFolded
        ? [trans.__('Unfold'), trans.__('Show the cells of this run')]
        : [trans.__('Fold'), trans.__('Hide the cells of this run')];
    case 'open':
      return [trans.__('Open Run'), trans.__("Open the run's own notebook, which has the rest of it")];
    case 'remove':
      return [trans.__('Remove'), trans.__("Remove this run's cells; this can be undone")];
    case 'approve':
      if (!canApprove) {
        const caption = trans.__('The cell that waits is not in the notebook as a code cell: undo that, or refuse it');
        return [trans.__('Run'), caption];
      }
      return isCall
        ? [trans.__('Call'), trans.__('Make the call that waits')]
        : [trans.__('Run'), trans.__('Run the cell that waits, as it stands there now')];
    case 'refuse':
      return isCall
        ? [trans.__('Refuse…'), trans.__('Do not make the call that waits, and say why')]
        : [trans.__('Refuse…'), trans.__('Do not run the cell that waits, and say why')];
  }
}
