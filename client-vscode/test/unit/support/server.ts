/** A server that a function plays, and VS Code's storage in memory. */

import type { ExtensionContext } from 'vscode';
import { Connection } from '../../../src/server/connection.ts';

/** A connection whose requests are answered by a function, and the listeners for the server's notifications. */
export function answering(answer: (method: string, params: unknown) => unknown) {
  const listeners = new Map<string, () => void>();
  const connection = new Connection();
  const attach = () =>
    connection.attach({
      sendRequest: async (method, params) => answer(method, params),
      sendNotification: async () => {},
      onRequest: () => ({ dispose: () => {} }),
      onNotification: (method, handler) => {
        listeners.set(method, () => handler({} as never));
        return { dispose: () => {} };
      },
    });
  return { connection, attach, notify: (method: string) => listeners.get(method)?.() };
}

/** VS Code's secret storage and global state. */
export function memory() {
  const secrets = new Map<string, string>();
  const state = new Map<string, unknown>();
  const context = {
    secrets: {
      get: async (name: string) => secrets.get(name),
      store: async (name: string, key: string) => void secrets.set(name, key),
      delete: async (name: string) => void secrets.delete(name),
    },
    globalState: {
      get: (name: string, otherwise: unknown) => state.get(name) ?? otherwise,
      update: async (name: string, value: unknown) => void state.set(name, value),
    },
  } as unknown as ExtensionContext;
  return { context, secrets, state };
}
