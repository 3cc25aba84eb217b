/** A run as a page knows it: folded from the kernel's messages, without any DOM. */

import type { Batch, Child, Item, LiveCell, Output, RunFacts, Status } from '../protocol/messages';

/** What became different, for whoever draws it; a cell is `added` to the run, and later `inserted` into the page. */
export type Change =
  | { kind: 'added' | 'inserted' | 'moved' | 'source' | 'status' | 'done'; cell: LiveCell }
  | { kind: 'outputs'; cell: LiveCell; from: number }
  | { kind: 'text'; cell: LiveCell; at: number; text: string }
  | { kind: 'gone'; id: string }
  | { kind: 'child'; child: Child }
  | { kind: 'facts' | 'ended' };

export const NOTHING: RunFacts = {
  phase: 'starting',
  iteration: 0,
  input_tokens: 0,
  output_tokens: 0,
  models: {},
  cost: 0,
  subcalls: 0,
  in_flight: 0,
  is_waiting: false,
  first: null,
  rate: null,
  remark: '',
  model: '',
  prompt: '',
  run_id: '',
  base_url: '',
  limits: {},
  outcome: null,
  message: '',
  seconds: null,
  heard: {},
  said: [],
  call: null,
  number: null,
  file: null
};

export function isDone(status: Status): boolean {
  return status !== 'writing' && status !== 'proposed' && status !== 'running';
}

export class RunModel {
  /** @param parent the id of the cell that asked. */
  constructor(
    readonly run: string,
    readonly parent: string,
    readonly execution = ''
  ) {}

  facts: RunFacts = NOTHING;
  /** Known from the cells that were saved with the notebook alone. */
  isSaved = false;
  /** Something did not arrive, and was not made good yet. */
  missed = false;

  get cells(): LiveCell[] {
    return this._order.map(id => this._cells.get(id)).filter((cell): cell is LiveCell => cell !== undefined);
  }

  /** The cells of the run itself, without those of children that are open. */
  get own(): LiveCell[] {
    return this.cells.filter(cell => cell.facts.child === undefined);
  }

  /** The children that answer the sub-calls of a cell, in order. */
  childrenOf(cellId: string): Child[] {
    return [...this._children.values()]
      .filter(child => child.of === cellId)
      .sort((one, other) => one.ordinal - other.ordinal);
  }

  child(id: string): Child | undefined {
    return this._children.get(id);
  }

  /** The beginning of what a child was asked. */
  promptOf(child: Child): string {
    const facts = child.of === null ? undefined : this._cells.get(child.of)?.facts;
    const asked = [...(facts?.calls ?? []), ...(facts?.flight ?? [])];
    return asked.find(call => call.ordinal === child.ordinal)?.prompt ?? '';
  }

  /** How long it has taken: its clock stands still while a person is waited for. `null`: the kernel has not said. */
  get seconds(): number | null {
    const { phase, seconds, call } = this.facts;
    if (seconds !== null || !this._clock) {
      return seconds;
    }
    const isHeld = call !== null || phase === 'paused' || phase === 'proposed' || phase === 'ended';
    return this._clock.seconds + (isHeld ? 0 : (Date.now() - this._clock.at) / 1000);
  }

  get isOver(): boolean {
    return this.facts.phase === 'ended';
  }

  /** The cells that are as they were told when they were done. */
  get known(): string[] {
    return this.cells.filter(cell => isDone(cell.status)).map(cell => cell.id);
  }

  /** A person is asked about a cell, or about a call of a tool. */
  get isAsking(): boolean {
    return !this.isOver && (this.facts.phase === 'proposed' || this.facts.call !== null);
  }

  /** The cell that waits for approval. */
  get proposed(): LiveCell | undefined {
    return this.cells.find(cell => cell.status === 'proposed');
  }

  cell(id: string): LiveCell | undefined {
    return this._cells.get(id);
  }

  /** Take in a message. Those that came before are passed over; a gap makes `missed` true. */
  fold(batch: Batch): Change[] {
    if (batch.run !== this.run || batch.seq < this._next) {
      return [];
    }
    if (batch.seq > this._next) {
      this.missed = true;
      this._gap = batch.seq;
    }
    this._next = batch.seq + 1;
    if (batch.parent !== undefined) {
      this._setClock(0); // it begins now
    }
    if (batch.snapshot) {
      this._setClock(batch.snapshot.elapsed);
      this._children = new Map((batch.snapshot.children ?? []).map(child => [child.id, child]));
      const children = [...this._children.values()].map(child => ({ kind: 'child' as const, child }));
      return [...this._replace(batch.snapshot, batch.seq), ...children];
    }
    return (batch.items ?? []).flatMap(item => this._item(item));
  }

  /** Nothing more will come: the kernel is gone (`cut`), or has closed the connection (`closed`). */
  cut(outcome: 'cut' | 'closed' = 'cut'): Change[] {
    if (this.isOver) {
      return [];
    }
    this._setClock(this.seconds);
    this.facts = { ...this.facts, phase: 'ended', outcome, in_flight: 0 };
    for (const [id, child] of this._children) {
      const lost = { kept: false, open: false, outcome: child.outcome ?? outcome };
      this._children.set(id, { ...child, ...lost, phase: 'ended' });
    }
    const open = this.cells.filter(cell => !isDone(cell.status));
    for (const cell of open) {
      cell.status = cell.type === 'code' && cell.status === 'running' ? 'died' : 'ok';
    }
    return [...open.map(cell => ({ kind: 'done' as const, cell })), { kind: 'facts' }, { kind: 'ended' }];
  }

  private _setClock(seconds: number | null | undefined): void {
    if (typeof seconds === 'number') {
      this._clock = { seconds, at: Date.now() };
    }
  }

  private _item(item: Item): Change[] {
    switch (item.item) {
      case 'cell':
      case 'done':
        return this._put(item.cell);
      case 'gone':
        return this._drop(item.id);
      case 'child':
        this._children.set(item.child.id, item.child);
        return [{ kind: 'child', child: item.child }];
      case 'run':
        this._setClock(item.elapsed);
        this.facts = item.facts;
        return [{ kind: 'facts' }];
      case 'end':
        return this._end(item.ids);
      default:
        return this._update(item);
    }
  }

  private _update(item: Extract<Item, { item: 'source' | 'text' | 'outputs' | 'status' }>): Change[] {
    const cell = this._cells.get(item.id);
    if (!cell) {
      this.missed = true;
      return [];
    }
    switch (item.item) {
      case 'source':
        if (item.at > cell.source.length) {
          this.missed = true;
          return [];
        }
        cell.source = cell.source.slice(0, item.at) + item.text;
        return [{ kind: 'source', cell }];
      case 'text': {
        const output: Output | undefined = cell.outputs[item.at];
        if (output?.output_type !== 'stream') {
          this.missed = true;
          return [];
        }
        cell.outputs[item.at] = { ...output, text: (output.text ?? '') + item.text };
        return [{ kind: 'text', cell, at: item.at, text: item.text }];
      }
      case 'outputs':
        if (item.from > cell.outputs.length) {
          this.missed = true;
          return [];
        }
        cell.outputs = [...cell.outputs.slice(0, item.from), ...item.outputs];
        return [{ kind: 'outputs', cell, from: item.from }];
      case 'status':
        cell.status = item.status;
        cell.facts = item.facts;
        return [{ kind: 'status', cell }];
    }
  }

  private _put(told: LiveCell): Change[] {
    const cell = { ...told, outputs: [...told.outputs] };
    const isNew = !this._cells.has(cell.id);
    this._cells.set(cell.id, cell);
    if (isNew) {
      const before = cell.after === null ? -1 : this._order.indexOf(cell.after);
      if (cell.after !== null && before < 0) {
        this.missed = true;
        this._astray.add(cell.id);
        this._order.push(cell.id);
      } else {
        this._order.splice(before + 1, 0, cell.id);
      }
    }
    const changes: Change[] = isNew ? [{ kind: 'added', cell }] : [];
    if (isDone(cell.status) || !isNew) {
      changes.push({ kind: 'done', cell });
    }
    return changes;
  }

  private _drop(id: string): Change[] {
    this._order = this._order.filter(other => other !== id);
    return this._cells.delete(id) ? [{ kind: 'gone', id }] : [];
  }

  private _end(ids: string[]): Change[] {
    const strays = this._order.filter(id => !ids.includes(id)).flatMap(id => this._drop(id));
    if (ids.some(id => !this._cells.has(id))) {
      this.missed = true;
    }
    return [...strays, { kind: 'ended' }];
  }

  /** Take over everything: the last of the messages that tell it, with what the page was short of. */
  private _replace({ cells, facts, ...rest }: NonNullable<Batch['snapshot']>, seq: number): Change[] {
    const ids = rest.ids ?? cells.map(cell => cell.id);
    const all = new Set(ids);
    const changes = this._order.filter(id => !all.has(id)).flatMap(id => this._drop(id));
    for (const cell of cells) {
      changes.push(...this._put(cell));
    }
    this._order = ids.filter(id => this._cells.has(id));
    // they were put somewhere: what they stand below was not known then
    for (const cell of this.cells.filter(({ id }) => this._astray.has(id))) {
      changes.push({ kind: 'moved', cell });
    }
    this._astray.clear();
    this.missed = this._order.length < ids.length || this._gap > (rest.since ?? seq);
    this.facts = facts;
    return [...changes, { kind: 'facts' }, ...(this.isOver ? [{ kind: 'ended' as const }] : [])];
  }

  private _cells = new Map<string, LiveCell>();
  private _children = new Map<string, Child>();
  private _order: string[] = [];
  /** Cells whose place was not known when they came. */
  private readonly _astray = new Set<string>();
  /** As the kernel has told it, and when, in milliseconds. */
  private _clock: { seconds: number; at: number } | null = null;
  private _next = 0;
  private _gap = -1; // the number of the message before which others were missing
}

/** A short digest of a text: whether somebody has edited a cell since it was written. */
export function digest(text: string): string {
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let place = 0; place < text.length; place++) {
    const code = text.charCodeAt(place);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return (4294967296 * (2097151 & low) + (high >>> 0)).toString(36);
}
