/** The runs of a notebook that this page has not seen run: what their cells, as they were saved, tell of them. */

import type { ICellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

import type { CellFacts, LiveCell, Status } from '../protocol/messages';
import { markOf } from './marks';
import type { Mark } from './marks';
import { NOTHING, RunModel } from './run';

const RUN = /^rlm-([0-9a-f]{8})-\d+$/;
/** A run id that begins with when the run began. */
const DATED = /^\d{8}-\d{6}-/;
const PROMPT_CHARS = 120;
const REST_MILLISECONDS = 300;

export class SavedRuns {
  /** @param _onChange is told those that are gone, and those that were not there before. */
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _known: () => ReadonlySet<string>,
    private readonly _onChange: (gone: RunModel[], come: RunModel[]) => void
  ) {}

  get runs(): readonly RunModel[] {
    return this._runs;
  }

  /** Look now, and whenever the notebook has other cells. */
  start(): void {
    this._look();
    this._panel.content.model?.cells.changed.connect(this._soon, this);
  }

  /** This one is seen after all. */
  forget(run: string): void {
    this._runs = this._runs.filter(other => other.run !== run);
  }

  private _soon(): void {
    if (!this._isDue) {
      this._isDue = true;
      window.setTimeout(() => {
        this._isDue = false;
        if (!this._panel.isDisposed) {
          this._look();
        }
      }, REST_MILLISECONDS);
    }
  }

  private _look(): void {
    const before = this._runs;
    this._runs = savedRuns(this._panel.content.model?.cells ?? [], this._known(), before);
    if (this._runs !== before) {
      this._onChange([...before], [...this._runs]);
    }
  }

  private _runs: readonly RunModel[] = [];
  private _isDue = false;
}

/**
 * @param known the runs that are shown otherwise.
 * @param before what was found the last time; given back as long as it is the same.
 * @returns the newest last.
 */
export function savedRuns(
  cells: Iterable<ICellModel>,
  known: ReadonlySet<string>,
  before: readonly RunModel[]
): readonly RunModel[] {
  const found = new Map<string, ICellModel[]>();
  const others = new Map<string, ICellModel>();
  for (const model of cells) {
    const named = RUN.exec(model.id)?.[1];
    if (named !== undefined && known.has(named)) {
      continue; // most of them, while a run is under way: without a copy of what stands in their marks
    }
    // the cells of a child have ids of its own, and belong to the root's run
    const run = markOf(model)?.run;
    if (run === undefined) {
      others.set(model.id, model);
    } else if (!known.has(run)) {
      found.set(run, [...(found.get(run) ?? []), model]);
    }
  }
  const isSame =
    before.length === found.size &&
    before.every(run => {
      const ids = found.get(run.run)?.map(model => model.id);
      return ids !== undefined && ids.join() === run.cells.map(cell => cell.id).join();
    });
  return isSame ? before : [...found].flatMap(([run, models]) => restored(run, models, others)).sort(byAge);
}

function restored(run: string, models: ICellModel[], others: Map<string, ICellModel>): RunModel[] {
  const marked = models.flatMap(model => {
    const mark = markOf(model);
    return mark ? [{ model, mark }] : [];
  });
  if (!marked.length) {
    return [];
  }
  const [{ mark: first }] = marked;
  const saved = new RunModel(run, first.parent);
  saved.isSaved = true;
  const cells = marked.map(({ model, mark }, place): LiveCell => ({
    id: model.id,
    type: model.type === 'code' ? 'code' : 'markdown',
    after: place ? marked[place - 1].model.id : null,
    source: model.sharedModel.getSource(),
    outputs: [],
    execution_count: null,
    status: mark.status as Status,
    facts: mark as unknown as CellFacts
  }));
  const facts = {
    ...NOTHING,
    phase: 'ended' as const,
    outcome: outcomeOf(marked.map(({ mark }) => mark)),
    iteration: Math.max(0, ...marked.map(({ mark }) => mark.iteration)),
    run_id: typeof first.run_id === 'string' ? first.run_id : '',
    base_url: typeof first.base_url === 'string' ? first.base_url : '',
    prompt: promptOf(others.get(first.parent)?.sharedModel.getSource() ?? '')
  };
  saved.fold({ v: 1, run, seq: 0, snapshot: { cells, facts } });
  return [saved];
}

/** The oldest first, as their ids say, whatever place their cells have; one that was not kept has no such id. */
function byAge(one: RunModel, other: RunModel): number {
  const [first, second] = [one, other].map(({ facts }) => (DATED.test(facts.run_id) ? facts.run_id : ''));
  return first < second ? -1 : first > second ? 1 : 0;
}

/** How it ended, as the line below its cells says; its cells may have been saved before. */
function outcomeOf(marks: Mark[]): string {
  const said = marks.map(mark => mark.outcome).find(outcome => typeof outcome === 'string');
  return said ?? 'saved';
}

/** What a cell asks: below the line of a `%%rlm`, or behind the `%rlm`. */
export function promptOf(source: string): string {
  const text = /^\s*%%rlm\b/.test(source) ? source.replace(/^\s*%%rlm.*\n?/, '') : source;
  return text.split(/\s+/).join(' ').trim().slice(0, PROMPT_CHARS);
}
