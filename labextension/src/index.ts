/** Wires the extension into JupyterLab and Notebook. */

import { ILabShell } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { treeViewIcon } from '@jupyterlab/ui-components';

import { addCommands, CATEGORY } from './commands';
import { LiveNotebook } from './panel';
import { RunsPanel } from './sidebar';

const ID = 'rlm-jupyter:plugin';

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the cells of a recursive language model while it runs.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry, ITranslator, ILabShell],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    translator: ITranslator | null,
    labShell: ILabShell | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('rlm_jupyter');
    const notebooks = new WeakMap<NotebookPanel, LiveNotebook>();
    let isOn = true;

    const askText = async (title: string, label: string): Promise<string | null> => {
      const said = await InputDialog.getText({ title, label });
      return said.button.accept ? (said.value ?? '') : null;
    };
    tracker.widgetAdded.connect((_, panel) => {
      notebooks.set(panel, new LiveNotebook(panel, trans, askText, () => isOn));
    });
    const current = (): LiveNotebook | undefined =>
      tracker.currentWidget ? notebooks.get(tracker.currentWidget) : undefined;

    const runs = new RunsPanel(trans);
    runs.title.icon = treeViewIcon;
    app.shell.add(runs, 'right', { rank: 700, type: 'Recursive Language Model' });
    tracker.currentChanged.connect(() => runs.watch(current()));
    tracker.widgetAdded.connect(() => runs.watch(current()));
    app.commands.addCommand('rlm:runs', {
      label: trans.__('Show the Runs of the Notebook'),
      caption: trans.__('Iterations, sub-calls, tokens and cost, in the side panel'),
      icon: treeViewIcon,
      execute: () => {
        runs.watch(current());
        if (labShell) {
          labShell.activateById(runs.id);
        } else {
          app.shell.activateById(runs.id);
        }
      }
    });
    palette?.addItem({ command: 'rlm:runs', category: trans.__(CATEGORY) });

    for (const command of addCommands(app.commands, trans, current)) {
      palette?.addItem({ command, category: trans.__(CATEGORY) });
    }
    void settings
      ?.load(ID)
      .then(loaded => {
        const read = (): void => {
          isOn = loaded.get('liveCells').composite !== false;
        };
        loaded.changed.connect(read);
        read();
      })
      .catch((reason: unknown) => console.warn(`${ID}: its settings could not be read`, reason));
  }
};

export default plugin;
