/** The export of a run whose own line is gone: the notebook's kernel writes it from what is on disk. */

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Form, Place } from '../protocol/messages';

const NAME = 'rlm';
const PACKAGE = 'rlm_jupyter';
/** The id comes from a notebook, which may be anybody's: nothing else becomes part of what a kernel executes. */
const RUN_ID = /^[^/\\\p{C}]{1,200}$/u;
const QUOTED = /^'(.*)'$/s;

/** What came of it; without a file it came to nothing, and the text says why. */
export interface Exported {
  what: 'exported' | 'refused';
  text: string;
  file?: Place;
}

/** Have a saved run written as one file, beside the notebook. */
export async function exportSaved(
  kernel: Kernel.IKernelConnection | null | undefined,
  runId: string,
  form: Form,
  trans: TranslationBundle
): Promise<Exported> {
  const refused = (text: string): Exported => ({ what: 'refused', text });
  if (!RUN_ID.test(runId)) {
    return refused(trans.__('this run is not saved, so there is nothing to export.'));
  }
  if (!kernel || (await kernel.info).language_info.name !== 'python') {
    return refused(trans.__('a run is exported by a Python kernel with rlm_jupyter: start one for this notebook.'));
  }
  // what JSON writes as a string, Python reads as the same
  const call = `export_saved(${JSON.stringify(runId)}, ${JSON.stringify(form)})`;
  const future = kernel.requestExecute({
    // nothing of it stays in the kernel, and no number is counted
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { [NAME]: `__import__('rlm_jupyter.frontends.live.actions', fromlist=['acts']).${call}` }
  });
  const said = expressionOf((await future.done).content);
  try {
    return said === null ? refused(trans.__('the kernel has no %1, or one of another version.', PACKAGE)) : said;
  } finally {
    future.dispose();
  }
}

/** The value of the expression, which is JSON in base64: a representation of anything else would have to be parsed. */
function expressionOf(content: KernelMessage.IExecuteReplyMsg['content']): Exported | null {
  if (content.status !== 'ok') {
    return null;
  }
  const value = content.user_expressions[NAME] as { status?: string; data?: Record<string, string> } | undefined;
  const text = QUOTED.exec(value?.data?.['text/plain'] ?? '')?.[1];
  if (value?.status !== 'ok' || text === undefined) {
    return null;
  }
  const bytes = Uint8Array.from(atob(text), char => char.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(bytes)) as Exported;
}
