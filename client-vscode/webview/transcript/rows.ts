/** Converts turns to rows, and selects the rows that the transcript mounts. */

import type { ToolCall } from '../../src/protocol.gen.ts';
import type { Call, Entry, Turn } from '../state/state.ts';

export type Row =
  | { kind: 'prompt'; key: string; turn: Turn }
  | { kind: 'entry'; key: string; turn: Turn; entry: Exclude<Entry, Call>; last: boolean }
  | { kind: 'call'; key: string; turn: Turn; entry: Call }
  | { kind: 'lookups'; key: string; turn: Turn; entries: readonly Call[] }
  | { kind: 'end'; key: string; turn: Turn };

export interface TurnRows {
  turn: Turn;
  rows: readonly Row[];
}

const cache = new WeakMap<Turn, readonly Row[]>();

/** The rows of a turn. Consecutive read calls share one row from the first call on, so that rows never disappear. */
export function turnRows(turn: Turn): readonly Row[] {
  const found = cache.get(turn);
  if (found) return found;
  const rows: Row[] = [];
  if (turn.prompt.length > 0) rows.push({ kind: 'prompt', key: `${turn.key}/prompt`, turn });
  let run: Call[] = [];
  const flush = () => {
    const first = run[0];
    if (first) rows.push({ kind: 'lookups', key: first.id, turn, entries: run });
    run = [];
  };
  for (const [index, entry] of turn.entries.entries()) {
    if (entry.kind === 'tool_call' && isPlan(entry.call)) continue;
    // The end of the turn says it, or the turn was resumed.
    if (entry.kind === 'notice' && entry.cause === 'closed') continue;
    if (entry.kind === 'tool_call' && isLookup(entry.call)) {
      run.push(entry);
      continue;
    }
    flush();
    const before = rows.at(-1);
    if (before?.kind === 'entry' && isSameNotice(before.entry, entry)) rows.pop();
    if (entry.kind === 'tool_call') rows.push({ kind: 'call', key: entry.id, turn, entry });
    else rows.push({ kind: 'entry', key: entry.id, turn, entry, last: index === turn.entries.length - 1 });
  }
  flush();
  rows.push({ kind: 'end', key: `${turn.key}/end`, turn });
  cache.set(turn, rows);
  return rows;
}

/** Whether a notice repeats the one before it with a new number, for example "Retrying in 2 s". It replaces that one. */
function isSameNotice(before: Entry, entry: Entry): boolean {
  if (before.kind !== 'notice' || entry.kind !== 'notice' || before.level !== entry.level) return false;
  return before.message.split('. ', 1)[0] === entry.message.split('. ', 1)[0];
}

/** Plan updates have no row, because the dock shows the plan. */
function isPlan(call: ToolCall): boolean {
  return call.name === 'update_plan' && call.status !== 'failed';
}

/** A read that did not need approval and did not fail. */
function isLookup(call: ToolCall): boolean {
  return (
    call.category === 'read_only' &&
    call.status !== 'failed' &&
    call.status !== 'denied' &&
    call.status !== 'awaiting_approval' &&
    call.approval?.by !== 'user'
  );
}

/** The mounted rows, counted from the end of the transcript. */
export interface Span {
  /** the number of rows after the mounted ones; 0 if the end is mounted */
  after: number;
  size: number;
}

export const INITIAL_SPAN: Span = { after: 0, size: 200 };
/** The number of rows that are mounted at once while scrolling; this takes one or two frames. */
export const STEP = 32;
export const MAX_ROWS = 600;

/** Mounts more rows above, and unmounts rows below if there are too many. */
export function extendUp(span: Span, total: number, most: number): Span {
  const size = Math.min(span.size + STEP, Math.max(total - span.after, 0));
  return size > most ? { after: span.after + size - most, size: most } : { after: span.after, size };
}

/** Mounts more rows below, and unmounts rows above if there are too many. */
export function extendDown(span: Span, most: number): Span {
  const after = Math.max(span.after - STEP, 0);
  const size = Math.min(span.size + (span.after - after), most);
  return { after, size };
}

/** Goes back to the end with the usual number of rows. For a screen reader (no limit) all mounted rows stay. */
export function moveToEnd(span: Span, most: number): Span {
  return most === Number.POSITIVE_INFINITY ? { after: 0, size: span.size + span.after } : INITIAL_SPAN;
}

/** New rows were added at the end. While following, the number of mounted rows is limited; otherwise all rows stay. */
export function afterGrowth(span: Span, rows: number, following: boolean, most: number): Span {
  if (following) return moveToEnd({ ...span, size: span.size + rows }, most);
  return span.after > 0 ? { ...span, after: span.after + rows } : { ...span, size: span.size + rows };
}

/** The rows of the span, grouped by turn. */
export function mountedRows(turns: readonly Turn[], span: Span): { groups: readonly TurnRows[]; total: number } {
  let total = 0;
  for (const turn of turns) total += turnRows(turn).length;
  const end = total - span.after;
  const begin = Math.max(end - span.size, 0);
  const groups: TurnRows[] = [];
  let at = 0;
  for (const turn of turns) {
    const rows = turnRows(turn);
    const from = Math.max(begin - at, 0);
    const to = Math.min(end - at, rows.length);
    if (from < to) groups.push({ turn, rows: from === 0 && to === rows.length ? rows : rows.slice(from, to) });
    at += rows.length;
    if (at >= end) break;
  }
  return { groups, total };
}
