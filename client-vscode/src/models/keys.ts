/** API keys and other secrets: kept in VS Code's secret storage, and sent to each server that starts. */

import type { ExtensionContext } from 'vscode';
import type { Connection } from '../server/connection.ts';

/** Global state: the names of the secrets in the secret storage. */
const NAMES = 'pilotfish.providers';

export class Keys {
  constructor(
    private readonly context: Pick<ExtensionContext, 'globalState' | 'secrets'>,
    private readonly connection: Connection,
  ) {}

  /** Sends all stored keys to a server that has started. */
  async sendAll(): Promise<void> {
    for (const name of this.names()) {
      const key = await this.get(name);
      if (key !== undefined) await this.connection.request('pilotfish/secret/set', { provider: name, key });
    }
  }

  /** Stores a key and sends it to the server. An empty one deletes the stored one. */
  async set(name: string, key: string): Promise<void> {
    const names = new Set(this.names());
    if (key === '') {
      names.delete(name);
      await this.context.secrets.delete(secretName(name));
    } else {
      names.add(name);
      await this.context.secrets.store(secretName(name), key);
    }
    await this.context.globalState.update(NAMES, [...names]);
    await this.connection.request('pilotfish/secret/set', { provider: name, key });
  }

  get(name: string): Thenable<string | undefined> {
    return this.context.secrets.get(secretName(name));
  }

  private names(): readonly string[] {
    return this.context.globalState.get<string[]>(NAMES, []);
  }
}

function secretName(name: string): string {
  return `pilotfish.key.${name}`;
}
