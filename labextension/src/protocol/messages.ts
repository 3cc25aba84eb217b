/** What the kernel tells of a run, and what a page may ask for: protocol 1. */

export const TARGET = 'rlm';
export const VERSION = 1;

/** The ids of live cells, as the kernel makes them. */
export const LIVE_ID = /^rlm-[0-9a-f]{8}-\d+$/;

export type Status =
  | 'writing'
  | 'proposed'
  | 'running'
  | 'ok'
  | 'error'
  | 'interrupted'
  | 'died'
  | 'skipped'
  | 'undone';

/** One output as nbformat 4 writes it. */
export interface Output {
  output_type: string;
  name?: string;
  text?: string;
  [key: string]: unknown;
}

/** One prompt of a sub-call that was answered, or failed. */
export interface Subcall {
  kind: 'llm' | 'rlm';
  ordinal: number;
  model: string;
  tokens: number;
  cost: number | null;
  seconds: number;
  failed: boolean;
  child: string | null;
  prompt: string;
}

/** One prompt of a sub-call that was not answered yet. */
export interface Flying {
  kind: 'llm' | 'rlm';
  ordinal: number;
  /** Empty for a child, which has its own. */
  model: string;
  prompt: string;
}

/** A child: a run that answers an `rlm_query`. */
export interface Child {
  /** Its run id. */
  id: string;
  /** The cell of sub-calls that it belongs below; `null`: that one is not shown. */
  of: string | null;
  /** The run id of its parent; `null`: the root. */
  parent: string | null;
  /** For people: `2`, and its third child `2.3`. */
  number: string;
  /** Which sample of the question it is, from 2; `null`: it answers a sub-call. */
  sample: number | null;
  depth: number;
  /** The n-th prompt of the cell that asked, from 0. */
  ordinal: number;
  phase: RunFacts['phase'];
  iteration: number;
  outcome: string | null;
  tokens: number;
  cost: number | null;
  seconds: number | null;
  /** Its notebook, where it is saved. */
  file: Place | null;
  /** Its own cells are shown. */
  open: boolean;
  /** They can be. */
  kept: boolean;
}

export interface CellFacts {
  role: 'prose' | 'code' | 'subcalls' | 'notice' | 'answer' | 'boundary';
  iteration: number;
  block: number;
  model?: string;
  tokens?: number;
  cost?: number | null;
  seconds?: number;
  started?: string;
  ended?: string;
  calls?: Subcall[];
  /** Sub-calls in flight, the oldest of them, and how many there are. */
  flight?: Flying[];
  in_flight?: number;
  /** The child that the cell is of, by its run id, and how deep that is. */
  child?: string;
  depth?: number;
  /** The code cell that asked. */
  of?: string;
  /** Of the line below a run's cells: how it ended. */
  outcome?: string;
  /** Of a cell that waits for approval: the cell before it, which can be undone; or why it can't be. */
  undoes?: string;
  no_undo?: string;
}

export interface LiveCell {
  id: string;
  type: 'code' | 'markdown';
  /** The cell before it; `null`: it is the first. */
  after: string | null;
  source: string;
  outputs: Output[];
  /** Its number in the kernel of the run. */
  execution_count: number | null;
  status: Status;
  facts: CellFacts;
}

export interface RunFacts {
  phase: 'starting' | 'writing' | 'running' | 'proposed' | 'paused' | 'ended';
  iteration: number;
  input_tokens: number;
  output_tokens: number;
  /** Tokens by the model's name, in the order in which they were first asked. */
  models: Record<string, number>;
  cost: number | null;
  subcalls: number;
  in_flight: number;
  /** A reply was asked for, and nothing of it is there yet. */
  is_waiting: boolean;
  /** Seconds until the first words of the reply that arrives. */
  first: number | null;
  /** Tokens a second. */
  rate: number | null;
  /** What people should know and the model need not; empty: nothing. */
  remark: string;
  model: string;
  prompt: string;
  run_id: string;
  /** Where its model was asked, which has to be given again to go on; empty: at the usual address. */
  base_url: string;
  limits: Record<string, number>;
  outcome: string | null;
  message: string;
  seconds: number | null;
  /** Of each page, the number up to which its asks were heard. */
  heard: Record<string, number>;
  /** What came of asks, where there is something to say; the newest last, bounded. */
  said: Said[];
  /** The call of a tool that waits for a person; `null`: none does. */
  call: { id: string; tool: string; text: string } | null;
  /** The number of the cell that asked, where the model's cells take those after it in one kernel; else `null`. */
  number: number | null;
  /** The run's notebook; `null`: it is not saved, or has not begun. */
  file: Place | null;
}

/** Where a file is. */
export interface Place {
  path: string;
  /** From the folder of the notebook that asked, with `/`; `null`: it can't be reached from there. */
  beside: string | null;
}

/** What came of an ask. */
export interface Said {
  page: string;
  n: number;
  what: 'refused' | 'exported' | 'branch' | 'unread';
  text: string;
  file?: Place;
}

/** `elapsed`: the seconds of a run that goes on, less those in which a person was waited for. */
export type Item =
  | { item: 'cell' | 'done'; cell: LiveCell }
  | { item: 'source'; id: string; at: number; text: string }
  | { item: 'text'; id: string; at: number; text: string }
  | { item: 'outputs'; id: string; from: number; outputs: Output[] }
  | { item: 'status'; id: string; status: Status; facts: CellFacts }
  | { item: 'gone'; id: string }
  | { item: 'child'; child: Child }
  | { item: 'run'; facts: RunFacts; elapsed: number | null }
  | { item: 'end'; ids: string[] };

export interface Batch {
  v: number;
  run: string;
  seq: number;
  /** With the first: the page's cell, and the request that executes it. */
  parent?: string;
  execution?: string;
  items?: Item[];
  snapshot?: {
    ids?: string[];
    since?: number;
    cells: LiveCell[];
    facts: RunFacts;
    children?: Child[];
    elapsed?: number | null;
  };
  shown?: Shown;
}

/** What the cell that asked shows when it is over. */
export interface Shown {
  outputs: Output[];
  execution_count: number | null;
}

export type Form = 'ipynb' | 'html' | 'jsonl';

/** What people do to a run. */
export type Ask =
  | { type: 'stop' | 'pause' | 'resume' }
  | { type: 'approve'; cell: string; edited?: string }
  | { type: 'approve'; call: string; all: boolean }
  | { type: 'refuse'; cell: string; note: string }
  | { type: 'refuse'; call: string; note: string }
  | { type: 'undo'; cell: string; note: string }
  | { type: 'note'; text: string }
  | { type: 'limit'; name: string; value: number | null }
  | { type: 'child'; child: string; open: boolean }
  | { type: 'branch'; at: number }
  | { type: 'export'; form: Form };

/** An ask with its number; `nothing` keeps the place of one that has become pointless. */
export type NumberedAsk = (Ask | { type: 'nothing' }) & { n: number };

/** All asks that the kernel has not heard yet, in order. */
export interface Asked {
  type: 'asks';
  page: string;
  asks: NumberedAsk[];
}

/**
 * What a page says: that it has missed something, and which cells it has as they are since they were done; that
 * it wants to find out whether it has; that it knows that the run is over; that it has not heard what the cell that
 * asked shows; that it shows the cells, and what people ask for.
 */
export type Message = { type: 'resync'; known: string[] } | { type: 'check' | 'over' | 'shown' } | Asked;

/** Whether some data is a message that this page understands. */
export function isBatch(data: unknown): data is Batch {
  const batch = data as Partial<Batch> | null;
  return (
    typeof batch === 'object' &&
    batch !== null &&
    batch.v === VERSION &&
    typeof batch.run === 'string' &&
    typeof batch.seq === 'number'
  );
}
