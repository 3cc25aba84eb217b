/** What can be done to runs, by palette, menu, toolbar and keys. */

import type { CommandRegistry } from '@lumino/commands';
import type { TranslationBundle } from '@jupyterlab/translation';
import { stopIcon } from '@jupyterlab/ui-components';
import type { LabIcon } from '@jupyterlab/ui-components';

import type { RunModel } from './model';
import type { LiveNotebook } from './panel';

export const CATEGORY = 'Recursive Language Model';

interface Command {
  id: string;
  label: string;
  caption: string;
  icon?: LabIcon;
  /** Whether there is something to do. */
  when: (run: RunModel) => boolean;
  run: (notebook: LiveNotebook, run: RunModel) => unknown;
}

/** Register the commands; returns their ids, for the palette. */
export function addCommands(
  commands: CommandRegistry,
  trans: TranslationBundle,
  current: () => LiveNotebook | undefined
): string[] {
  const underWay = (run: RunModel): boolean => !run.isOver;
  const all: Command[] = [
    {
      id: 'rlm:stop',
      label: trans.__('Stop the Run'),
      caption: trans.__('End the run with the best answer so far'),
      icon: stopIcon,
      when: underWay,
      run: (notebook, run) => notebook.stop(run)
    },
    {
      id: 'rlm:pause',
      label: trans.__('Pause or Resume the Run'),
      caption: trans.__('Wait before the next reply, or go on'),
      when: underWay,
      run: (notebook, run) => notebook.ask(run, { type: run.facts.phase === 'paused' ? 'resume' : 'pause' })
    },
    {
      id: 'rlm:approve',
      label: trans.__('Approve the Cell'),
      caption: trans.__('Run the cell that waits, as it stands there now'),
      when: run => run.proposed !== undefined,
      run: (notebook, run) => notebook.approve(run)
    },
    {
      id: 'rlm:refuse',
      label: trans.__('Refuse the Cell…'),
      caption: trans.__('Do not run the cell that waits, and say why'),
      when: run => run.proposed !== undefined,
      run: (notebook, run) => notebook.refuse(run)
    },
    {
      id: 'rlm:note',
      label: trans.__('Tell the Model Something…'),
      caption: trans.__('It reads it with the next outputs'),
      when: underWay,
      run: (notebook, run) => notebook.note(run)
    }
  ];
  for (const command of all) {
    commands.addCommand(command.id, {
      label: command.label,
      caption: command.caption,
      icon: command.icon,
      isEnabled: () => {
        const run = current()?.meant;
        return run !== undefined && command.when(run);
      },
      execute: () => {
        const notebook = current();
        const run = notebook?.meant;
        return notebook && run && command.when(run) ? command.run(notebook, run) : undefined;
      }
    });
  }
  type OnCells = (notebook: LiveNotebook, parent: string) => void;
  const onCells = (id: string, label: string, caption: string, act: OnCells): void => {
    commands.addCommand(id, {
      label,
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
  return [...all.map(command => command.id), 'rlm:fold', 'rlm:remove'];
}
