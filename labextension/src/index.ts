/** Wires the extension into JupyterLab and Notebook. */

import { ILabShell } from '@jupyterlab/application';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { TranslationBundle } from '@jupyterlab/translation';
import { treeViewIcon } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';

import { addCommands, ENABLED_BY_RUNS, FORMS, named } from './commands';
import { askText } from './actions/askText';
import { shower } from './actions/openFile';
import type { AskText } from './actions/steering';
import type { RunModel } from './model/run';
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
    const isOn = follow(settings);
    const notebooks = new Notebooks(app, tracker, trans, isOn);
    const runs = new RunsPanel(trans);
    runs.title.icon = treeViewIcon;
    app.shell.add(runs, 'right', { rank: 700, type: 'Recursive Language Model' });
    const showRuns = (): void => {
      runs.watch(notebooks.current);
      (labShell ?? app.shell).activateById(runs.id);
    };
    const status = new RunStatus(trans, showRuns);
    statusBar?.registerStatusItem('rlm-jupyter:status', {
      item: status,
      align: 'left',
      rank: 10,
      isActive: () => status.isOn,
      activeStateChanged: status.turned
    });
    let phase = '';
    notebooks.looked.connect((_, run) => {
      status.follow(run);
      const now = `${run?.run} ${run?.facts.phase}`;
      if (now !== phase) {
        phase = now;
        ENABLED_BY_RUNS.forEach(id => app.commands.notifyCommandChanged(id));
      }
    });
    notebooks.turned.connect(() => runs.watch(notebooks.current));
    register(app, notebooks, trans, showRuns, palette);
    notebooks.look();
    sayWhatIsMissing(trans);
  }
};

/** The notebooks that are open, and the one in front. */
class Notebooks {
  constructor(
    app: JupyterFrontEnd,
    private readonly _tracker: INotebookTracker,
    trans: TranslationBundle,
    isOn: () => boolean
  ) {
    const ask: AskText = (title, label, button) => askText(title, label, button);
    _tracker.widgetAdded.connect((_, panel) => {
      const show = shower(app.commands, app.serviceManager.contents, () => panel.context.path, trans);
      const notebook = new LiveNotebook(panel, trans, ask, isOn, show);
      notebook.changed.connect(this._soon, this);
      this._all.set(panel, notebook);
      this._turn();
    });
    _tracker.activeCellChanged.connect(this._soon, this);
    _tracker.currentChanged.connect(this._turn, this);
  }

  /** Another notebook is in front. */
  readonly turned = new Signal<this, void>(this);
  /** What the run in front is at may have changed; not more often than people can read. */
  readonly looked = new Signal<this, RunModel | undefined>(this);

  get current(): LiveNotebook | undefined {
    return this._tracker.currentWidget ? this._all.get(this._tracker.currentWidget) : undefined;
  }

  look(): void {
    this._isDue = false;
    this.looked.emit(this.current?.meant);
  }

  private _soon(): void {
    if (!this._isDue) {
      this._isDue = true;
      window.setTimeout(() => this.look(), REST_MILLISECONDS);
    }
  }

  private _turn(): void {
    this.turned.emit();
    this.look();
  }

  private readonly _all = new WeakMap<NotebookPanel, LiveNotebook>();
  private _isDue = false;
}

/** Register the commands, with the palette. */
function register(
  app: JupyterFrontEnd,
  notebooks: Notebooks,
  trans: TranslationBundle,
  showRuns: () => void,
  palette: ICommandPalette | null
): void {
  const { commands } = app;
  const category = trans.__('RLM: Recursive Language Model');
  commands.addCommand('rlm:runs', {
    label: named(trans.__('Runs of This Notebook')),
    caption: trans.__('Iterations, sub-calls, tokens and cost, in the side panel'),
    icon: treeViewIcon,
    execute: showRuns
  });
  const isLive = (node: HTMLElement): boolean => node.classList.contains('rlm-live');
  const clicked = (): HTMLElement | undefined => app.contextMenuHitTest(isLive);
  const ids = addCommands({ commands, trans, current: () => notebooks.current, clicked });
  for (const command of ['rlm:runs', ...ids]) {
    palette?.addItem({ command, category, args: { isPalette: true } });
  }
  for (const form of FORMS) {
    palette?.addItem({ command: 'rlm:export', args: { form, isPalette: true }, category });
  }
}

/** Follow the settings, and send those of the kernel's with each cell; returns whether live cells are wanted. */
function follow(settings: ISettingRegistry | null): () => boolean {
  let isOn = true;
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
  return () => isOn;
}

export default plugin;
