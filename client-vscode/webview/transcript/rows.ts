/** Turns as rows: what the transcript mounts, and which part of it. */

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

const known = new WeakMap<Turn, readonly Row[]>();

/** The rows of a turn. A run of reading calls is one row from its first call on, so that no row ever disappears. */
export function rowsOf(turn: Turn): readonly Row[] {
  const found = known.get(turn);
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
  known.set(turn, rows);
  return rows;
}

/** "Retrying in 1 s", "in 2 s": the newest says it all, in the place of the one before. */
function isSameNotice(before: Entry, entry: Entry): boolean {
  if (before.kind !== 'notice' || entry.kind !== 'notice' || before.level !== entry.level) return false;
  return before.message.split('. ', 1)[0] === entry.message.split('. ', 1)[0];
}

/** The plan stands in the dock; that it was written down is no news. */
function isPlan(call: ToolCall): boolean {
  return call.name === 'update_plan' && call.status !== 'failed';
}

/** A quiet look around: a read that needed no question and did not fail. */
function isLookup(call: ToolCall): boolean {
  return (
    call.category === 'read_only' &&
    call.status !== 'failed' &&
    call.status !== 'denied' &&
    call.status !== 'awaiting_approval' &&
    call.approval?.by !== 'user'
  );
}

/** The mounted part of the transcript, counted in rows from the end so that new rows do not shift it. */
export interface Span {
  /** rows hidden after the mounted part; 0: the end is mounted */
  after: number;
  size: number;
}

export const FIRST_SPAN: Span = { after: 0, size: 200 };
/** Rows mounted at once while scrolling: what fits well into a frame or two. */
export const STEP = 32;
export const MOST = 600;

/** One step further up, letting go of rows below once there are too many. */
export function upward(span: Span, total: number, most: number): Span {
  const size = Math.min(span.size + STEP, Math.max(total - span.after, 0));
  return size > most ? { after: span.after + size - most, size: most } : { after: span.after, size };
}

/** One step back down. */
export function downward(span: Span, most: number): Span {
  const after = Math.max(span.after - STEP, 0);
  const size = Math.min(span.size + (span.after - after), most);
  return { after, size };
}

/** At the end again, with the usual number of rows; a screen reader loses none that it has. */
export function atEnd(span: Span, most: number): Span {
  return most === Number.POSITIVE_INFINITY ? { after: 0, size: span.size + span.after } : FIRST_SPAN;
}

/** New rows came at the end. Who follows keeps a window of the usual size; who reads keeps every mounted row. */
export function grown(span: Span, rows: number, following: boolean, most: number): Span {
  if (following) return atEnd({ ...span, size: span.size + rows }, most);
  return span.after > 0 ? { ...span, after: span.after + rows } : { ...span, size: span.size + rows };
}

/** The rows of the span, still by turn. */
export function mounted(turns: readonly Turn[], span: Span): { groups: readonly TurnRows[]; total: number } {
  let total = 0;
  for (const turn of turns) total += rowsOf(turn).length;
  const end = total - span.after;
  const begin = Math.max(end - span.size, 0);
  const groups: TurnRows[] = [];
  let at = 0;
  for (const turn of turns) {
    const rows = rowsOf(turn);
    const from = Math.max(begin - at, 0);
    const to = Math.min(end - at, rows.length);
    if (from < to) groups.push({ turn, rows: from === 0 && to === rows.length ? rows : rows.slice(from, to) });
    at += rows.length;
    if (at >= end) break;
  }
  return { groups, total };
}
