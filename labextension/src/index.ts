/** Wires the extension into JupyterLab and Notebook. */

import { ILabShell } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { treeViewIcon } from '@jupyterlab/ui-components';

import { addCommands, ENABLED_BY_RUNS, FORMS, named } from './commands';
import { askText } from './actions/askText';
import { shower } from './actions/openFile';
import { LiveNotebook } from './notebook/view';
import { RunsPanel } from './panels/sidebar';
import { RunStatus } from './panels/statusBar';
import { sendSettings } from './cells/execution';
import { sayWhatIsMissing } from './compat/missingMagic';
import { isTooOld } from './compat/versions';

const ID = 'rlm-jupyter:plugin';
const REST_MILLISECONDS = 250;
/** The settings that are the kernel's; where one is empty, what is usual there holds. */
const SENT = ['model', 'sub_model', 'sandbox', 'max_iterations', 'max_seconds', 'max_cost', 'max_tokens'];

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the cells of a recursive language model while it runs.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry, ITranslator, ILabShell, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    translator: ITranslator | null,
    labShell: ILabShell | null,
    statusBar: IStatusBar | null
  ): void => {
    if (isTooOld(app.version)) {
      // half of it would work; the kernel says in the cell what is missing
      console.warn(`${ID}: live cells need a newer version`, app.version);
      return;
    }
    const trans = (translator ?? nullTranslator).load('rlm_jupyter');
    const { commands } = app;
    const notebooks = new WeakMap<NotebookPanel, LiveNotebook>();
    let isOn = true;

    tracker.widgetAdded.connect((_, panel) => {
      const show = shower(commands, app.serviceManager.contents, () => panel.context.path, trans);
      const notebook = new LiveNotebook(panel, trans, (title, label) => askText(title, label, trans), () => isOn, show);
      notebook.changed.connect(soon);
      notebooks.set(panel, notebook);
    });
    const current = (): LiveNotebook | undefined =>
      tracker.currentWidget ? notebooks.get(tracker.currentWidget) : undefined;

    const runs = new RunsPanel(trans);
    runs.title.icon = treeViewIcon;
    app.shell.add(runs, 'right', { rank: 700, type: 'Recursive Language Model' });
    const showRuns = (): void => {
      runs.watch(current());
      if (labShell) {
        labShell.activateById(runs.id);
      } else {
        app.shell.activateById(runs.id);
      }
    };
    const status = new RunStatus(trans, showRuns);
    statusBar?.registerStatusItem('rlm-jupyter:status', {
      item: status,
      align: 'left',
      rank: 10,
      isActive: () => status.isOn,
      activeStateChanged: status.turned
    });

    // what shows the run in front, and is enabled by it; not more often than people can read
    let isDue = false;
    let phase = '';
    const look = (): void => {
      isDue = false;
      const run = current()?.meant;
      status.follow(run);
      const now = `${run?.run} ${run?.facts.phase}`;
      if (now !== phase) {
        phase = now;
        ENABLED_BY_RUNS.forEach(id => commands.notifyCommandChanged(id));
      }
    };
    const soon = (): void => {
      if (!isDue) {
        isDue = true;
        window.setTimeout(look, REST_MILLISECONDS);
      }
    };
    const turn = (): void => {
      runs.watch(current());
      look();
    };
    tracker.activeCellChanged.connect(soon);
    tracker.currentChanged.connect(turn);
    tracker.widgetAdded.connect(turn);

    const isLive = (node: HTMLElement): boolean => node.classList.contains('rlm-live');
    const clicked = (): HTMLElement | undefined => app.contextMenuHitTest(isLive);

    const category = trans.__('RLM: Recursive Language Model');
    commands.addCommand('rlm:runs', {
      label: named(trans.__('Show the Runs of the Notebook')),
      caption: trans.__('Iterations, sub-calls, tokens and cost, in the side panel'),
      icon: treeViewIcon,
      execute: showRuns
    });
    palette?.addItem({ command: 'rlm:runs', category, args: { isPalette: true } });
    for (const command of addCommands(commands, trans, current, clicked)) {
      palette?.addItem({ command, category, args: { isPalette: true } });
    }
    for (const form of FORMS) {
      palette?.addItem({ command: 'rlm:export', args: { form, isPalette: true }, category });
    }
    look();
    sayWhatIsMissing(trans);

    void settings
      ?.load(ID)
      .then(loaded => {
        const read = (): void => {
          isOn = loaded.get('liveCells').composite !== false;
          const set = SENT.map(name => [name, loaded.get(name).composite] as const);
          sendSettings(Object.fromEntries(set.filter(([, value]) => Boolean(value))));
        };
        loaded.changed.connect(read);
        read();
      })
      .catch((reason: unknown) => console.warn(`${ID}: its settings could not be read`, reason));
  }
};

export default plugin;
