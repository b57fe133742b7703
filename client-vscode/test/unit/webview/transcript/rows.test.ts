import { describe, expect, it } from 'vitest';
import type { Update } from '../../../../src/protocol.gen.ts';
import { reduce } from '../../../../webview/state/reduce.ts';
import { INITIAL, type Turn } from '../../../../webview/state/state.ts';
import {
  afterGrowth,
  extendDown,
  extendUp,
  INITIAL_SPAN,
  MAX_ROWS,
  mountedRows,
  moveToEnd,
  turnRows,
} from '../../../../webview/transcript/rows.ts';
import { call, loaded, updates } from '../../../harness/scenes.ts';

const STARTED: Update = { kind: 'turn_started', prompt: [{ type: 'text', text: 'Hi' }] };
const read = (id: string, status: 'completed' | 'in_progress' | 'failed' = 'completed'): Update => ({
  kind: 'tool_call',
  call: call(id, `Read ${id}`, 'read_only', status),
});

function turn(...list: Update[]): Turn {
  const [only] = [loaded(), updates([STARTED, ...list])].reduce(reduce, INITIAL).turns;
  if (!only) throw new Error('no turn');
  return only;
}

function kinds(one: Turn): string[] {
  return turnRows(one).map((row) => row.kind);
}

describe('rows', () => {
  it('consecutive reads share one row from the first call on', () => {
    let before = 0;
    for (let n = 1; n <= 6; n += 1) {
      const rows = kinds(
        turn(
          ...Array.from({ length: n }, (_, index) => read(`r${index}`, index === n - 1 ? 'in_progress' : 'completed')),
        ),
      );
      expect(rows).toEqual(['prompt', 'lookups', 'end']);
      expect(rows.length).toBeGreaterThanOrEqual(before);
      before = rows.length;
    }
  });

  it('a failed read has its own row', () => {
    expect(kinds(turn(read('a'), read('b', 'failed'), read('c')))).toEqual([
      'prompt',
      'lookups',
      'call',
      'lookups',
      'end',
    ]);
  });

  it('other entries separate reads', () => {
    expect(kinds(turn(read('a'), { kind: 'agent_message_chunk', itemId: 'm', text: 'x' }, read('b')))).toEqual([
      'prompt',
      'lookups',
      'entry',
      'lookups',
      'end',
    ]);
  });

  it('a repeated notice replaces the previous one', () => {
    const notice = (message: string): Update => ({ kind: 'notice', level: 'warning', message });
    const rows = turnRows(
      turn(notice('Rate limited. Retrying in 1 s.'), notice('Rate limited. Retrying in 2 s.'), notice('Else.')),
    );
    const shown = rows.flatMap((row) =>
      row.kind === 'entry' && row.entry.kind === 'notice' ? [row.entry.message] : [],
    );
    expect(shown).toEqual(['Rate limited. Retrying in 2 s.', 'Else.']);
  });

  it('a plan update has no row', () => {
    expect(
      kinds(turn({ kind: 'tool_call', call: { ...call('p', 'Plan', 'read_only', 'completed'), name: 'update_plan' } })),
    ).toEqual(['prompt', 'end']);
  });
});

describe('the mounted rows of ten thousand', () => {
  const turns = Array.from(
    { length: 1000 },
    (_, index): Turn => ({
      ...turn(),
      key: `t${index}`,
      entries: Array.from({ length: 8 }, (_, n) => ({ kind: 'message' as const, id: `t${index}.${n}`, text: 'x' })),
    }),
  );
  const size = (span: typeof INITIAL_SPAN) =>
    mountedRows(turns, span).groups.reduce((sum, group) => sum + group.rows.length, 0);

  it('are the newest two hundred at first', () => {
    const { groups, total } = mountedRows(turns, INITIAL_SPAN);
    expect(total).toBe(10_000);
    expect(size(INITIAL_SPAN)).toBe(200);
    expect(groups.at(-1)?.turn).toBe(turns.at(-1));
  });

  it('grow upwards to six hundred, then rows below are unmounted', () => {
    let span = INITIAL_SPAN;
    for (let step = 0; step < 25; step += 1) {
      span = extendUp(span, 10_000, MAX_ROWS);
      expect(size(span)).toBeLessThanOrEqual(MAX_ROWS);
    }
    expect(span).toEqual({ after: 400, size: 600 });
    for (let step = 0; step < 25; step += 1) span = extendDown(span, MAX_ROWS);
    expect(span).toEqual({ after: 0, size: 600 });
  });

  it('stop at the first row', () => {
    let span = INITIAL_SPAN;
    for (let step = 0; step < 400; step += 1) span = extendUp(span, 10_000, MAX_ROWS);
    const { groups } = mountedRows(turns, span);
    expect(groups[0]?.turn).toBe(turns[0]);
    expect(span.after + span.size).toBe(10_000);
  });

  it('stay while the user reads, and are limited while following', () => {
    expect(afterGrowth({ after: 0, size: 300 }, 5, false, MAX_ROWS)).toEqual({ after: 0, size: 305 });
    expect(afterGrowth({ after: 40, size: 600 }, 5, false, MAX_ROWS)).toEqual({ after: 45, size: 600 });
    expect(afterGrowth({ after: 0, size: 600 }, 5, true, MAX_ROWS)).toEqual(INITIAL_SPAN);
  });

  it('are never unmounted for a screen reader', () => {
    const every = Number.POSITIVE_INFINITY;
    let span = INITIAL_SPAN;
    for (let step = 0; step < 20; step += 1) span = extendUp(span, 10_000, every);
    expect(span).toEqual({ after: 0, size: 840 });
    expect(afterGrowth(span, 5, true, every)).toEqual({ after: 0, size: 845 });
    expect(moveToEnd({ after: 40, size: 900 }, every)).toEqual({ after: 0, size: 940 });
  });
});
