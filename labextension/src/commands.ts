/** What can be done to runs, by palette, menu, toolbar and keys. */

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';

import type { Form } from './protocol/messages';
import { notebookOf } from './actions/openFile';
import { stopRunIcon } from './icons';
import type { RunModel } from './model/run';
import { canBranch } from './notebook/branch';
import type { LiveCellOfRun, LiveNotebook } from './notebook/view';

/** What a run can be exported as. */
export const FORMS: Form[] = ['ipynb', 'html', 'jsonl'];
/** Those that a toolbar may show, and that a run which begins or ends makes available or not. */
export const ENABLED_BY_RUNS = [
  'rlm:stop',
  'rlm:pause',
  'rlm:note',
  'rlm:limits',
  'rlm:approve',
  'rlm:refuse',
  'rlm:undo'
];

interface Command {
  id: string;
  label: string;
  caption: string;
  icon?: LabIcon;
  /** Whether there is something to do. */
  when: (run: RunModel, notebook: LiveNotebook) => boolean;
  /** It needs no kernel: a run that is known from the notebook alone will do. */
  isForSaved?: boolean;
  run: (notebook: LiveNotebook, run: RunModel) => unknown;
}

/** Where commands are registered, and what they are about. */
interface Place {
  commands: CommandRegistry;
  trans: TranslationBundle;
  current: () => LiveNotebook | undefined;
  /** The node of the live cell whose context menu is open. */
  clicked: () => HTMLElement | undefined;
}

/** Register the commands; returns their ids, for the palette. */
export function addCommands(place: Place): string[] {
  const all = [...steeringCommands(place.trans), ...decidingCommands(place.trans), openCommand(place.trans)];
  all.forEach(command => addRunCommand(place, command));
  addExport(place);
  return [...all.map(command => command.id), ...addCellsCommands(place), ...addCellCommands(place)];
}

/** What is asked of a run that goes on. */
function steeringCommands(trans: TranslationBundle): Command[] {
  const when = (run: RunModel): boolean => !run.isOver;
  return [
    {
      id: 'rlm:stop',
      label: trans.__('Stop the Run'),
      caption: trans.__('End the run with the best answer so far'),
      icon: stopRunIcon,
      when,
      run: (notebook, run) => notebook.steering.stop(run)
    },
    {
      id: 'rlm:pause',
      label: trans.__('Pause or Resume the Run'),
      caption: trans.__('Wait before the next reply, or go on'),
      when,
      run: (notebook, run) => notebook.steering.ask(run, { type: run.facts.phase === 'paused' ? 'resume' : 'pause' })
    },
    {
      id: 'rlm:note',
      label: trans.__('Message to the Model…'),
      caption: trans.__('The model reads it with the next outputs'),
      when,
      run: (notebook, run) => notebook.steering.note(run)
    },
    {
      id: 'rlm:limits',
      label: trans.__('Limits of the Run…'),
      caption: trans.__('See what is used, and raise or lower a limit'),
      when,
      run: (notebook, run) => notebook.steering.limits(run)
    }
  ];
}

/** What is decided about the cell that waits. */
function decidingCommands(trans: TranslationBundle): Command[] {
  const when = (run: RunModel): boolean => run.isAsking;
  return [
    {
      id: 'rlm:approve',
      label: trans.__('Run the Cell That Waits'),
      caption: trans.__('Run the cell that waits, as it stands there now'),
      when: (run, notebook) => run.isAsking && notebook.canApprove(run),
      run: (notebook, run) => notebook.steering.approve(run)
    },
    {
      id: 'rlm:refuse',
      label: trans.__('Refuse the Cell That Waits…'),
      caption: trans.__('Do not run the cell that waits, and say why'),
      when,
      run: (notebook, run) => notebook.steering.refuse(run)
    },
    {
      id: 'rlm:undo',
      label: trans.__('Undo the Last Cell of the Run…'),
      caption: trans.__('Take the kernel back to before the last cell; the one that waits is not run'),
      when: run => when(run) && Boolean(run.proposed?.facts.undoes),
      run: (notebook, run) => notebook.steering.undo(run)
    }
  ];
}

function openCommand(trans: TranslationBundle): Command {
  return {
    id: 'rlm:open-run',
    label: trans.__("Open the Run's Own Notebook"),
    caption: trans.__('The record of the run, which is kept beside this notebook'),
    when: run => notebookOf(run) !== null,
    isForSaved: true,
    run: (notebook, run) => {
      const place = notebookOf(run);
      return place ? notebook.show(place) : undefined;
    }
  };
}

function addRunCommand({ commands, current }: Place, command: Command): void {
  const meant = (notebook: LiveNotebook | undefined): RunModel | undefined =>
    command.isForSaved ? notebook?.meantOrSaved : notebook?.meant;
  commands.addCommand(command.id, {
    label: named(command.label),
    caption: command.caption,
    icon: command.icon,
    isEnabled: () => {
      const notebook = current();
      const run = meant(notebook);
      return notebook !== undefined && run !== undefined && command.when(run, notebook);
    },
    execute: () => {
      const notebook = current();
      const run = meant(notebook);
      return notebook && run && command.when(run, notebook) ? command.run(notebook, run) : undefined;
    }
  });
}

/** What is done to all cells of a run; returns the ids. */
function addCellsCommands({ commands, trans, current }: Place): string[] {
  type Act = (notebook: LiveNotebook, parent: string) => void;
  const add = (id: string, label: string, caption: string, act: Act): string => {
    commands.addCommand(id, {
      label: named(label),
      caption,
      isEnabled: () => current()?.meantParent !== undefined,
      execute: () => {
        const notebook = current();
        const parent = notebook?.meantParent;
        if (notebook && parent !== undefined) {
          act(notebook, parent);
        }
      }
    });
    return id;
  };
  return [
    add(
      'rlm:fold',
      trans.__("Hide or Show the Run's Cells"),
      trans.__('The cells stay in the notebook'),
      (notebook, parent) => notebook.fold(parent)
    ),
    add(
      'rlm:remove',
      trans.__("Remove the Run's Cells"),
      trans.__('One step, which can be undone; cells that you edited stay'),
      (notebook, parent) => notebook.remove(parent)
    )
  ];
}

/** What is done with one cell: of the context menu the one that was clicked, of the palette the active one. */
function addCellCommands({ commands, trans, current, clicked }: Place): string[] {
  type Act = (notebook: LiveNotebook, cell: LiveCellOfRun) => unknown;
  type Can = (cell: LiveCellOfRun) => boolean;
  const meant = ({ isPalette }: ReadonlyPartialJSONObject): LiveCellOfRun | null =>
    current()?.liveCell(isPalette ? undefined : clicked()) ?? null;
  const add = (id: string, label: string, caption: string, can: Can, act: Act): string => {
    commands.addCommand(id, {
      label: named(label),
      caption,
      isEnabled: args => {
        const cell = meant(args);
        return cell !== null && can(cell);
      },
      execute: args => {
        const [notebook, cell] = [current(), meant(args)];
        return notebook && cell ? act(notebook, cell) : undefined;
      }
    });
    return id;
  };
  return [
    add(
      'rlm:run-cell',
      trans.__("Run in the Run's Kernel"),
      trans.__('Where the variables of the run are, as long as that kernel is open'),
      cell => cell.model.type === 'code',
      (notebook, cell) => notebook.runCell(cell)
    ),
    add(
      'rlm:copy-cell',
      trans.__('Copy to My Cells'),
      trans.__('Put a copy below the cells of the run, as a cell of your own'),
      () => true,
      (notebook, cell) => notebook.copyCell(cell)
    ),
    add(
      'rlm:branch',
      trans.__('Branch from Here'),
      trans.__('Put a cell below that begins a new run with the iterations up to this one; nothing is run yet'),
      cell => canBranch(cell.mark),
      (notebook, cell) => notebook.branch(cell)
    )
  ];
}

function addExport({ commands, trans, current }: Place): void {
  commands.addCommand('rlm:export', {
    label: args => named(exportLabels(trans)[formOf(args.form)]),
    caption: trans.__('Keys, home folders and user names are taken out'),
    isVisible: () => current()?.meantOrSaved !== undefined,
    execute: args => {
      const notebook = current();
      const run = notebook?.meantOrSaved;
      if (notebook && run) {
        notebook.steering.export(run, formOf(args.form));
      }
    }
  });
}

/** A command's label: in menus and in the palette it stands among those of others, so it begins with whose it is. */
export function named(label: string): string {
  return `RLM: ${label}`;
}

function formOf(named: unknown): Form {
  return FORMS.find(form => form === named) ?? 'html';
}

function exportLabels(trans: TranslationBundle): Record<Form, string> {
  return {
    ipynb: trans.__('Export the Run as One Notebook'),
    html: trans.__('Export the Run as HTML'),
    jsonl: trans.__('Export the Run as JSON Lines')
  };
}
