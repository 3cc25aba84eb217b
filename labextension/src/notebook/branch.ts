/** The cell that begins a new run with the first iterations of another. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Mark } from '../model/marks';

/** Whether a new run can begin after the iteration of this cell: its run is kept, and it is no child's. */
export function canBranch(mark: Mark): boolean {
  return typeof mark.run_id === 'string' && mark.run_id !== '' && !mark.depth && mark.iteration > 0;
}

/** The source of such a cell. */
export function branched({ run_id, base_url, iteration }: Mark, trans: TranslationBundle): string {
  const address = base_url ? `, base_url=${JSON.stringify(base_url)}` : '';
  return [
    'from rlm_jupyter import RLM',
    '',
    `# ${trans.__('a new run with iterations 1 to %1 of that one', iteration)}`,
    `branch = RLM.fork(${JSON.stringify(run_id)}, at=${iteration}${address})`,
    'branch'
  ].join('\n');
}
