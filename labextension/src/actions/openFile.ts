/** Opens what a kernel has written: the notebook of a run or of a child, an export. */

import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import type { Place } from '../protocol/messages';
import type { RunModel } from '../model/run';

/** Shows a file, or says why it can't; never rejected. */
export type Show = (place: Place) => Promise<void>;

/** The hexadecimal end of a run's id, which tells runs of one name apart. */
const ID_END = /-[0-9a-f]{6}$/;
/** Where runs are kept unless somebody names another place. */
const FOLDER = 'rlm_runs';

/** The path of a file for the server, seen from a notebook's own; `null`: it is outside of the server's root. */
export function served(notebook: string, place: Place): string | null {
  if (place.beside === null) {
    return null;
  }
  const path = PathExt.join(PathExt.dirname(notebook), place.beside);
  return path === '..' || path.startsWith('../') || path.startsWith('/') ? null : path;
}

/** Where the notebook of a run is; one that was only found in the notebook is looked for where runs are kept. */
export function notebookOf(run: RunModel): Place | null {
  const { file, run_id } = run.facts;
  return file ?? (run.isSaved ? savedNotebook(run_id) : null);
}

/** Where the notebook of a run with this id is, if it is where runs are kept; `null`: the id is none. */
export function savedNotebook(id: string): Place | null {
  if (!ID_END.test(id)) {
    return null;
  }
  const path = `${FOLDER}/${id.replace(ID_END, '')}.ipynb`;
  return { path, beside: path };
}

/** Where the notebook of a child is: beside that of its run. */
export function childOf(run: RunModel, child: string): Place | null {
  const told = run.child(child)?.file;
  const parent = notebookOf(run);
  if (told || !parent || !ID_END.test(child)) {
    return told ?? null;
  }
  const below = (path: string): string =>
    `${path.replace(/\.ipynb$/, '')}.rlm/children/${child.replace(ID_END, '')}.ipynb`;
  return { path: below(parent.path), beside: parent.beside === null ? null : below(parent.beside) };
}

/** @param notebook the path of the notebook that asked, now: it may have been renamed. */
export function shower(
  commands: CommandRegistry,
  contents: Contents.IManager,
  notebook: () => string,
  trans: TranslationBundle
): Show {
  return async place => {
    const path = served(contents.localPath(notebook()), place);
    if (path === null) {
      const words = trans.__('It is outside of the folders that this server shows: %1', place.path);
      Notification.info(words, { autoClose: false });
      return;
    }
    try {
      await contents.get(path, { content: false });
    } catch {
      Notification.warning(trans.__('It is not there, or not yet: %1', place.path), { autoClose: 8000 });
      return;
    }
    try {
      await commands.execute('docmanager:open', { path });
    } catch {
      Notification.warning(trans.__('It could not be opened here: %1', place.path), { autoClose: 8000 });
    }
  };
}
