import { describe, expect, it } from 'vitest';
import { forkAfter, forkBefore, lastPrompt, redoTurns, undoTurns } from '../../../src/chat/turnHistory.ts';
import type { Item, SessionLoadParams } from '../../../src/protocol.gen.ts';
import { Connection, type Transport } from '../../../src/server/connection.ts';
import { SESSION } from '../../harness/scenes.ts';

/** Turns with these numbers of items, each starting with a prompt; `t0` is the oldest. */
function transcript(...sizes: number[]): Item[] {
  return sizes.flatMap((size, turn) =>
    Array.from({ length: size }, (_, n): Item => {
      const base = { id: `t${turn}.${n}`, turnId: `t${turn}`, seq: 0 };
      return n === 0
        ? { ...base, kind: 'prompt', prompt: [{ type: 'text', text: `prompt ${turn}` }] }
        : { ...base, kind: 'message', text: `${n}` };
    }),
  );
}

/** A server with this transcript, and the requests that change something. */
function serverWith(items: readonly Item[]) {
  const asked: [string, unknown][] = [];
  const transport: Transport = {
    sendRequest: async (method, params) => {
      if (method === 'pilotfish/session/load') {
        const { before, limit = 50 } = params as SessionLoadParams;
        const end = before === undefined ? items.length : items.findIndex((item) => item.id === before);
        const start = Math.max(0, end - limit);
        return {
          session: SESSION,
          items: items.slice(start, end),
          hasMore: start > 0,
          lastSeq: 0,
          pendingApprovals: [],
        };
      }
      asked.push([method, params]);
      if (method === 'pilotfish/session/undo') throw new Error('nothing to undo');
      return { session: { ...SESSION, id: 'copy' } };
    },
    sendNotification: async () => {},
    onRequest: () => ({ dispose: () => {} }),
    onNotification: () => ({ dispose: () => {} }),
  };
  const connection = new Connection();
  connection.attach(transport);
  return { connection, asked };
}

async function forkedAt(sizes: number[], turnId: string) {
  const { connection, asked } = serverWith(transcript(...sizes));
  expect((await forkBefore(connection, SESSION, turnId)).id).toBe('copy');
  return asked;
}

describe('a fork before a turn', () => {
  const fork = (itemId: string) => [['pilotfish/session/fork', { sessionId: 's1', itemId }]];

  it('works inside one page', async () => {
    expect(await forkedAt([3, 3, 3], 't1')).toEqual(fork('t0.2'));
  });

  it('works for a turn on two pages', async () => {
    expect(await forkedAt([10, 300, 400], 't1')).toEqual(fork('t0.9'));
  });

  it('works for a turn that starts a page', async () => {
    expect(await forkedAt([10, 100, 400], 't1')).toEqual(fork('t0.9'));
  });

  it('works for a turn that is longer than a page', async () => {
    expect(await forkedAt([10, 1700, 40], 't1')).toEqual(fork('t0.9'));
  });

  it('is a new session with the same settings for the first turn', async () => {
    expect(await forkedAt([700, 40], 't0')).toEqual([
      ['pilotfish/session/new', { model: SESSION.model, mode: 'ask', workspaceFolder: SESSION.workspaceFolder }],
    ]);
  });

  it('fails for an unknown turn, and creates nothing', async () => {
    const { connection, asked } = serverWith(transcript(3, 3));
    await expect(forkBefore(connection, SESSION, 't9')).rejects.toThrow('no turn t9');
    expect(asked).toEqual([]);
  });
});

describe('undoing several turns', () => {
  it('starts with the newest and continues after a failure', async () => {
    const { connection, asked } = serverWith([]);
    const logged: string[] = [];
    await undoTurns(connection, 's1', ['t1', 't2', 't3'], (text) => logged.push(text));
    expect(asked.map(([, params]) => params)).toEqual(
      ['t3', 't2', 't1'].map((turnId) => ({ sessionId: 's1', turnId })),
    );
    expect(logged).toEqual(['t3', 't2', 't1'].map((turnId) => `undo ${turnId}: nothing to undo`));
  });
});

describe('redoing several turns', () => {
  it('starts with the oldest', async () => {
    const { connection, asked } = serverWith([]);
    await redoTurns(connection, 's1', ['t1', 't2'], () => {});
    expect(asked).toEqual(['t1', 't2'].map((turnId) => ['pilotfish/session/redo', { sessionId: 's1', turnId }]));
  });
});

describe('a fork after a turn', () => {
  it('has the last item of the turn', async () => {
    const { connection, asked } = serverWith(transcript(3, 4, 700));
    await forkAfter(connection, 's1', 't1');
    expect(asked).toEqual([['pilotfish/session/fork', { sessionId: 's1', itemId: 't1.3' }]]);
  });
});

describe('the last prompt', () => {
  it('is the one that started the newest turn', async () => {
    const items = transcript(3, 1200);
    items.splice(900, 0, {
      id: 'steered',
      turnId: 't1',
      seq: 0,
      kind: 'prompt',
      prompt: [{ type: 'text', text: 'no' }],
    });
    expect((await lastPrompt(serverWith(items).connection, 's1'))?.prompt).toEqual([
      { type: 'text', text: 'prompt 1' },
    ]);
  });

  it('is undefined in an empty session', async () => {
    expect(await lastPrompt(serverWith([]).connection, 's1')).toBeUndefined();
  });
});
