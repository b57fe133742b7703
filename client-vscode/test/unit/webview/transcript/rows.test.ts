import { describe, expect, it } from 'vitest';
import type { Update } from '../../../../src/protocol.gen.ts';
import { reduce } from '../../../../webview/state/reduce.ts';
import { INITIAL, type Turn } from '../../../../webview/state/state.ts';
import {
  atEnd,
  downward,
  FIRST_SPAN,
  grown,
  MOST,
  mounted,
  rowsOf,
  upward,
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
  return rowsOf(one).map((row) => row.kind);
}

describe('rows', () => {
  it('a run of reads is one row from its first call on: no row ever disappears', () => {
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

  it('a read that failed stands alone', () => {
    expect(kinds(turn(read('a'), read('b', 'failed'), read('c')))).toEqual([
      'prompt',
      'lookups',
      'call',
      'lookups',
      'end',
    ]);
  });

  it('what comes between reads parts them', () => {
    expect(kinds(turn(read('a'), { kind: 'agent_message_chunk', itemId: 'm', text: 'x' }, read('b')))).toEqual([
      'prompt',
      'lookups',
      'entry',
      'lookups',
      'end',
    ]);
  });

  it('a notice said again takes the place of the one before', () => {
    const notice = (message: string): Update => ({ kind: 'notice', level: 'warning', message });
    const rows = rowsOf(
      turn(notice('Rate limited. Retrying in 1 s.'), notice('Rate limited. Retrying in 2 s.'), notice('Else.')),
    );
    const shown = rows.flatMap((row) =>
      row.kind === 'entry' && row.entry.kind === 'notice' ? [row.entry.message] : [],
    );
    expect(shown).toEqual(['Rate limited. Retrying in 2 s.', 'Else.']);
  });

  it('a plan that was written down is no row', () => {
    expect(
      kinds(turn({ kind: 'tool_call', call: { ...call('p', 'Plan', 'read_only', 'completed'), name: 'update_plan' } })),
    ).toEqual(['prompt', 'end']);
  });
});

describe('the window onto ten thousand rows', () => {
  const turns = Array.from(
    { length: 1000 },
    (_, index): Turn => ({
      ...turn(),
      key: `t${index}`,
      entries: Array.from({ length: 8 }, (_, n) => ({ kind: 'message' as const, id: `t${index}.${n}`, text: 'x' })),
    }),
  );
  const size = (span: typeof FIRST_SPAN) =>
    mounted(turns, span).groups.reduce((sum, group) => sum + group.rows.length, 0);

  it('mounts the newest two hundred', () => {
    const { groups, total } = mounted(turns, FIRST_SPAN);
    expect(total).toBe(10_000);
    expect(size(FIRST_SPAN)).toBe(200);
    expect(groups.at(-1)?.turn).toBe(turns.at(-1));
  });

  it('grows upward to six hundred, then lets go below', () => {
    let span = FIRST_SPAN;
    for (let step = 0; step < 25; step += 1) {
      span = upward(span, 10_000, MOST);
      expect(size(span)).toBeLessThanOrEqual(MOST);
    }
    expect(span).toEqual({ after: 400, size: 600 });
    for (let step = 0; step < 25; step += 1) span = downward(span, MOST);
    expect(span).toEqual({ after: 0, size: 600 });
  });

  it('reaches the very first row and stops there', () => {
    let span = FIRST_SPAN;
    for (let step = 0; step < 400; step += 1) span = upward(span, 10_000, MOST);
    const { groups } = mounted(turns, span);
    expect(groups[0]?.turn).toBe(turns[0]);
    expect(span.after + span.size).toBe(10_000);
  });

  it('keeps a reader’s rows when new ones come, and a follower’s window small', () => {
    expect(grown({ after: 0, size: 300 }, 5, false, MOST)).toEqual({ after: 0, size: 305 });
    expect(grown({ after: 40, size: 600 }, 5, false, MOST)).toEqual({ after: 45, size: 600 });
    expect(grown({ after: 0, size: 600 }, 5, true, MOST)).toEqual(FIRST_SPAN);
  });

  it('lets go of nothing that a screen reader has come to', () => {
    const every = Number.POSITIVE_INFINITY;
    let span = FIRST_SPAN;
    for (let step = 0; step < 20; step += 1) span = upward(span, 10_000, every);
    expect(span).toEqual({ after: 0, size: 840 });
    expect(grown(span, 5, true, every)).toEqual({ after: 0, size: 845 });
    expect(atEnd({ after: 40, size: 900 }, every)).toEqual({ after: 0, size: 940 });
  });
});
