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
  | 'skipped';

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

export interface CellFacts {
  role: 'prose' | 'code' | 'subcalls' | 'notice' | 'answer';
  iteration: number;
  block: number;
  model?: string;
  tokens?: number;
  cost?: number | null;
  seconds?: number;
  started?: string;
  ended?: string;
  calls?: Subcall[];
  /** The code cell that asked. */
  of?: string;
}

export interface LiveCell {
  id: string;
  type: 'code' | 'markdown';
  /** The cell before it; `null`: it is the first. */
  after: string | null;
  source: string;
  outputs: Output[];
  execution_count: number | null;
  status: Status;
  facts: CellFacts;
}

export interface RunFacts {
  phase: 'starting' | 'writing' | 'running' | 'proposed' | 'paused' | 'ended';
  iteration: number;
  input_tokens: number;
  output_tokens: number;
  cost: number | null;
  subcalls: number;
  in_flight: number;
  model: string;
  prompt: string;
  run_id: string;
  limits: Record<string, number>;
  outcome: string | null;
  message: string;
  seconds: number | null;
}

export type Item =
  | { item: 'cell' | 'done'; cell: LiveCell }
  | { item: 'source'; id: string; at: number; text: string }
  | { item: 'text'; id: string; at: number; text: string }
  | { item: 'outputs'; id: string; from: number; outputs: Output[] }
  | { item: 'status'; id: string; status: Status; facts: CellFacts }
  | { item: 'gone'; id: string }
  | { item: 'run'; facts: RunFacts }
  | { item: 'end'; ids: string[] };

export interface Batch {
  v: number;
  run: string;
  seq: number;
  /** With the first: the page's cell, and the request that executes it. */
  parent?: string;
  execution?: string;
  items?: Item[];
  snapshot?: { cells: LiveCell[]; facts: RunFacts };
}

/** What people do to a run, and what a page needs. */
export type Ask =
  | { type: 'hello' | 'resync' | 'stop' | 'pause' | 'resume' }
  | { type: 'approve'; cell: string; edited?: string }
  | { type: 'refuse'; cell: string; note: string }
  | { type: 'note'; text: string }
  | { type: 'limit'; name: string; value: number };

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
