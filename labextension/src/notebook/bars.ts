/** The bars of the runs in one view of a notebook, and the prompts below the cells that wait for approval. */

import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Steering } from '../actions/steering';
import { CallProposal, Proposal } from '../inline/approvalPrompt';
import { RunBar } from '../inline/bar';
import { addTo } from '../inline/strip';
import type { RunModel } from '../model/run';

/** What people do with a run from its bar. */
export interface BarActions {
  steering: Steering;
  fold: (run: RunModel) => void;
  isFolded: (run: RunModel) => boolean;
  canApprove: (run: RunModel) => boolean;
  showProposed: (run: RunModel) => void;
  showFailed: (run: RunModel) => void;
  isWritten: (run: RunModel) => boolean;
  remove: (run: RunModel) => void;
  open: (run: RunModel) => void;
  /** From a cell that waited for approval to the next one that does. */
  goOn: (from: string | undefined, to: string) => void;
}

export class Bars {
  constructor(
    private readonly _actions: BarActions,
    private readonly _widget: (id: string) => Cell | undefined,
    private readonly _trans: TranslationBundle
  ) {}

  /** Bring all bars up to date. */
  refresh(): void {
    this._bars.forEach(bar => bar.refresh());
  }

  /** This view's bar of a run; none while the cell that asked is not there. */
  of(model: RunModel): RunBar | null {
    const known = this._bars.get(model.run);
    if (known && !known.isDisposed) {
      return known;
    }
    const widget = this._widget(model.parent);
    if (!widget) {
      return null;
    }
    const actions = this._actions;
    const { steering } = actions;
    const bar = new RunBar(
      model,
      {
        stop: () => steering.stop(model),
        pause: () => steering.ask(model, { type: 'pause' }),
        resume: () => steering.ask(model, { type: 'resume' }),
        approve: () => steering.approve(model),
        refuse: () => void steering.refuse(model),
        note: () => void steering.note(model),
        limits: () => void steering.limits(model),
        fold: () => actions.fold(model),
        isFolded: () => actions.isFolded(model),
        canApprove: () => actions.canApprove(model),
        said: () => steering.acknowledge(model),
        showProposed: () => actions.showProposed(model),
        showFailed: () => actions.showFailed(model),
        isWritten: () => actions.isWritten(model),
        remove: () => actions.remove(model),
        open: () => actions.open(model)
      },
      this._trans
    );
    this._bars.set(model.run, bar);
    addTo(widget, bar);
    return bar;
  }

  /** The cell of a run that waits for approval says so itself: the bar may be far above it. */
  propose(run: RunModel): void {
    const cell = run.isOver ? undefined : run.proposed;
    const known = this._proposals.get(run.run);
    const call = run.isOver ? null : run.facts.call;
    const undoes = (!call && cell?.facts.undoes) || '';
    const isSame = known?.about === (call?.id ?? cell?.id) && this._undoes.get(run.run) === undoes;
    if (known && isSame && !known.isDisposed) {
      return;
    }
    this._undoes.set(run.run, undoes);
    known?.dispose();
    this._proposals.delete(run.run);
    if (call) {
      this._proposeCall(run, call);
      return;
    }
    const widget = cell && this._widget(cell.id);
    if (!cell || !widget || !this._actions.canApprove(run)) {
      return;
    }
    const { steering } = this._actions;
    const decide = {
      approve: () => steering.approve(run),
      refuse: () => void steering.refuse(run),
      undo: undoes ? () => void steering.undo(run) : null
    };
    const proposal = new Proposal(cell.id, decide, cell.facts.no_undo ?? '', this._trans);
    this._proposals.set(run.run, proposal);
    addTo(widget, proposal);
    this._actions.goOn(this._asked.get(run.run), cell.id);
    this._asked.set(run.run, cell.id);
  }

  /** Below the cell that makes a call, or that asked for the child that makes it. */
  private _proposeCall(run: RunModel, call: NonNullable<RunModel['facts']['call']>): void {
    const running = [...run.own].reverse().find(cell => cell.status === 'running');
    const widget = (running && this._widget(running.id)) ?? this._widget(run.parent);
    if (!widget) {
      return;
    }
    const { steering } = this._actions;
    const decide = {
      approve: (all: boolean) => steering.approve(run, all),
      refuse: () => void steering.refuse(run)
    };
    const proposal = new CallProposal(call, decide, this._trans);
    this._proposals.set(run.run, proposal);
    addTo(widget, proposal);
  }

  /** Remove the bar of a run. */
  remove(run: RunModel): void {
    this._bars.get(run.run)?.dispose();
    this._bars.delete(run.run);
  }

  private readonly _bars = new Map<string, RunBar>();
  /** The last cell of a run that a person was asked about. */
  private readonly _asked = new Map<string, string>();
  /** The cell that is undone by a click, as it was last offered. */
  private readonly _undoes = new Map<string, string>();
  private readonly _proposals = new Map<string, Proposal | CallProposal>();
}
