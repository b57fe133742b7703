import { describe, expect, it, vi } from 'vitest';
import { Connection, NotConnected } from '../../../src/server/connection.ts';
import { connected, FakeTransport } from '../support/transport.ts';

vi.mock('vscode-languageclient/node', () => ({ ResponseError: class extends Error {} }));

describe('the connection', () => {
  it('rejects requests while no server is running', async () => {
    await expect(new Connection().request('pilotfish/status', {})).rejects.toThrow(NotConnected);
  });

  it('keeps its handlers and listeners after a restart', () => {
    const { connection, transport } = connected();
    const received: unknown[] = [];
    connection.on('pilotfish/session/update', (params) => received.push(params));
    const next = new FakeTransport();
    connection.attach(next);
    expect([...next.requests.keys()]).toEqual([...transport.requests.keys()]);
    next.notifications.get('pilotfish/session/update')?.({ seq: 1 } as never);
    expect(received).toEqual([{ seq: 1 }]);
  });
});
