import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Memento } from 'vscode';
import { newInlinePromptId } from '../../../src/editor/inlineEdit.ts';
import type { Update } from '../../../src/protocol.gen.ts';
import { Connection } from '../../../src/server/connection.ts';
import { FinishedTurns, finishedMessage } from '../../../src/sessions/finishedTurns.ts';
import { USAGE } from '../../harness/scenes.ts';
import { FakeTransport } from '../support/transport.ts';
import { LOG, pressed, settings, shown } from '../support/vscode.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

beforeEach(() => {
  shown.length = 0;
  pressed.next = undefined;
  for (const name of Object.keys(settings)) delete settings[name];
});

const TURN: readonly Update[] = [
  { kind: 'turn_started', promptId: 'p', prompt: [] },
  { kind: 'agent_message_chunk', itemId: 'm1', text: 'Let me look.' },
  { kind: 'file_changed', uri: 'file:///shop/src/auth.py', change: 'edited', added: 1, removed: 1, via: 'disk' },
  { kind: 'agent_message_chunk', itemId: 'm2', text: '**Done**: an invalid token\nis no login.' },
];
const end = (stopReason: 'end_turn' | 'cancelled'): Update => ({ kind: 'turn_ended', stopReason, usage: USAGE });

function finishedTurns(inView: boolean, updates: readonly Update[]) {
  const connection = new Connection();
  const transport = new FakeTransport();
  const stored = new Map<string, unknown>();
  const storage = {
    get: (name: string, otherwise: unknown) => stored.get(name) ?? otherwise,
    update: async (name: string, value: unknown) => void stored.set(name, value),
  } as unknown as Memento;
  const opened: string[] = [];
  const make = () =>
    new FinishedTurns(
      connection,
      storage,
      () => inView,
      () => 'Fix the login',
      async (id) => void opened.push(id),
      LOG,
    );
  const finished = make();
  connection.attach(transport);
  for (const update of updates) {
    const params = { sessionId: 's1', turnId: 't1', seq: 1, update };
    transport.notifications.get('pilotfish/session/update')?.(params as never);
  }
  return { finished, opened, make };
}

describe('finished turns', () => {
  it('of a hidden session are unread, also after a reload, until it is seen', () => {
    const { finished, make } = finishedTurns(false, [...TURN, end('end_turn')]);
    expect([finished.count, finished.isUnread('s1'), make().isUnread('s1')]).toEqual([1, true, true]);
    finished.markRead('s1');
    expect([finished.count, make().isUnread('s1')]).toEqual([0, false]);
  });

  it('are told with their result and files, and lead to their session', async () => {
    pressed.next = (_, buttons) => buttons[0];
    const { opened } = finishedTurns(false, [...TURN, end('end_turn')]);
    await vi.waitFor(() => expect(opened).toEqual(['s1']));
    expect(shown).toEqual(['Pilotfish: Fix the login: Done: an invalid token (1 file: auth.py)']);
  });

  it('in view, or stopped by the user, are not told', () => {
    expect(finishedTurns(true, [...TURN, end('end_turn')]).finished.count).toBe(0);
    expect(finishedTurns(false, [...TURN, end('cancelled')]).finished.count).toBe(0);
    expect(shown).toEqual([]);
  });

  it('of an inline edit are not unread: the editor shows their result', () => {
    const [, ...rest] = TURN;
    const started: Update = { kind: 'turn_started', promptId: newInlinePromptId(), prompt: [] };
    expect(finishedTurns(false, [started, ...rest, end('end_turn')]).finished.count).toBe(0);
    expect(shown).toEqual([]);
  });

  it('are only marked when notifications are switched off', () => {
    settings.notifyFinished = false;
    expect(finishedTurns(false, [...TURN, end('end_turn')]).finished.count).toBe(1);
    expect(shown).toEqual([]);
  });

  it('name a few files', () => {
    expect(finishedMessage('', '', ['a', 'b', 'c', 'd'])).toBe('Untitled: Done (4 files: a, b, c, …)');
  });
});
