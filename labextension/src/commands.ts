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
export const ENABLED_BY_RUNS = ['rlm:stop', 'rlm:pause', 'rlm:note', 'rlm:limits', 'rlm:approve', 'rlm:refuse'];

interface Command {
  id: string;
  label: string;
  caption: string;
  icon?: LabIcon;
  /** Whether there is something to do. */
  when: (run: RunModel) => boolean;
  /** It needs no kernel: a run that is known from the notebook alone will do. */
  isForSaved?: boolean;
  run: (notebook: LiveNotebook, run: RunModel) => unknown;
}

/**
 * Register the commands; returns their ids, for the palette.
 *
 * @param clicked the node of the live cell whose context menu is open.
 */
export function addCommands(
  commands: CommandRegistry,
  trans: TranslationBundle,
  current: () => LiveNotebook | undefined,
  clicked: () => HTMLElement | undefined
): string[] {
  const underWay = (run: RunModel): boolean => !run.isOver;
  const all: Command[] = [
    {
      id: 'rlm:stop',
      label: trans.__('Stop the Run'),
      caption: trans.__('End the run with the best answer so far'),
      icon: stopRunIcon,
      when: underWay,
      run: (notebook, run) => notebook.steering.stop(run)
    },
    {
      id: 'rlm:pause',
      label: trans.__('Pause or Resume the Run'),
      caption: trans.__('Wait before the next reply, or go on'),
      when: underWay,
      run: (notebook, run) => notebook.steering.ask(run, { type: run.facts.phase === 'paused' ? 'resume' : 'pause' })
    },
    {
      id: 'rlm:approve',
      label: trans.__('Run the Cell That Waits'),
      caption: trans.__('Run the cell that waits, as it stands there now'),
      when: run => run.proposed !== undefined,
      run: (notebook, run) => notebook.steering.approve(run)
    },
    {
      id: 'rlm:refuse',
      label: trans.__('Refuse the Cell That Waits…'),
      caption: trans.__('Do not run the cell that waits, and say why'),
      when: run => run.proposed !== undefined,
      run: (notebook, run) => notebook.steering.refuse(run)
    },
    {
      id: 'rlm:note',
      label: trans.__('Message to the Model…'),
      caption: trans.__('The model reads it with the next outputs'),
      when: underWay,
      run: (notebook, run) => notebook.steering.note(run)
    },
    {
      id: 'rlm:limits',
      label: trans.__('Limits of the Run…'),
      caption: trans.__('See what is used, and raise or lower a limit'),
      when: underWay,
      run: (notebook, run) => notebook.steering.limits(run)
    },
    {
      id: 'rlm:open-run',
      label: trans.__("Open the Run's Own Notebook"),
      caption: trans.__('The record of the run, which is kept beside this notebook'),
      when: run => notebookOf(run) !== null,
      isForSaved: true,
      run: (notebook, run) => {
        const place = notebookOf(run);
        return place ? notebook.show(place) : undefined;
      }
    }
  ];
  for (const command of all) {
    const meant = (notebook: LiveNotebook | undefined): RunModel | undefined =>
      command.isForSaved ? notebook?.meantOrSaved : notebook?.meant;
    commands.addCommand(command.id, {
      label: named(command.label),
      caption: command.caption,
      icon: command.icon,
      isEnabled: () => {
        const run = meant(current());
        return run !== undefined && command.when(run);
      },
      execute: () => {
        const notebook = current();
        const run = meant(notebook);
        return notebook && run && command.when(run) ? command.run(notebook, run) : undefined;
      }
    });
  }
  type OnCells = (notebook: LiveNotebook, parent: string) => void;
  const onCells = (id: string, label: string, caption: string, act: OnCells): void => {
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
  };
  onCells(
    'rlm:fold',
    trans.__("Hide or Show the Run's Cells"),
    trans.__('The cells stay in the notebook'),
    (notebook, parent) => notebook.fold(parent)
  );
  onCells(
    'rlm:remove',
    trans.__("Remove the Run's Cells"),
    trans.__('One step, which can be undone; cells that you edited stay'),
    (notebook, parent) => notebook.remove(parent)
  );
  // of the context menu: of the cell that was clicked; of the palette: of the active one
  const onCell = ({ isPalette }: ReadonlyPartialJSONObject): LiveCellOfRun | null =>
    current()?.liveCell(isPalette ? undefined : clicked()) ?? null;
  type OnCell = (notebook: LiveNotebook, cell: LiveCellOfRun) => unknown;
  const act = (args: ReadonlyPartialJSONObject, does: OnCell): unknown => {
    const [notebook, cell] = [current(), onCell(args)];
    return notebook && cell ? does(notebook, cell) : undefined;
  };
  commands.addCommand('rlm:run-cell', {
    label: named(trans.__("Run in the Run's Kernel")),
    caption: trans.__('Where the variables of the run are, as long as that kernel is open'),
    isEnabled: args => onCell(args)?.model.type === 'code',
    execute: args => act(args, (notebook, cell) => notebook.runCell(cell))
  });
  commands.addCommand('rlm:copy-cell', {
    label: named(trans.__('Copy to My Cells')),
    caption: trans.__('Put a copy below the cells of the run, as a cell of your own'),
    isEnabled: args => onCell(args) !== null,
    execute: args => act(args, (notebook, cell) => notebook.copyCell(cell))
  });
  commands.addCommand('rlm:branch', {
    label: named(trans.__('Branch from Here')),
    caption: trans.__('Put a cell below that begins a new run with the iterations up to this one; nothing is run yet'),
    isEnabled: args => {
      const cell = onCell(args);
      return cell !== null && canBranch(cell.mark);
    },
    execute: args => act(args, (notebook, cell) => notebook.branch(cell))
  });
  commands.addCommand('rlm:export', {
    label: args => named(exportLabels(trans)[formOf(args.form)])(args),
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
  return [...all.map(command => command.id), 'rlm:fold', 'rlm:remove', 'rlm:run-cell', 'rlm:copy-cell', 'rlm:branch'];
}

/** A command's label: in the palette, where it stands among all others, it begins with whose it is. */
export function named(label: string): (args: ReadonlyPartialJSONObject) => string {
  return args => (args.isPalette ? `RLM: ${label}` : label);
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
