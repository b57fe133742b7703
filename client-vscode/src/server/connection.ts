/** The server, spoken to in the wire's own types. */

import type { CancellationToken, Disposable } from 'vscode';
import type { ClientNotifications, ClientRequests, ServerNotifications, ServerRequests } from '../protocol.gen.ts';

/** What a connection needs of a language client. */
export interface Transport {
  sendRequest(method: string, params: unknown, token?: CancellationToken): Promise<unknown>;
  sendNotification(method: string, params: unknown): Promise<void>;
  onRequest(method: string, handler: (params: never, token: CancellationToken) => unknown): Disposable;
  onNotification(method: string, handler: (params: never) => void): Disposable;
}

/** Nothing can be asked while there is no server. */
export class NotConnected extends Error {
  constructor() {
    super('Pilotfish is not running.');
  }
}

type Answer<M extends keyof ServerRequests> = (
  params: ServerRequests[M]['params'],
  token: CancellationToken,
) => Promise<ServerRequests[M]['result']> | ServerRequests[M]['result'];
type Listener<M extends keyof ServerNotifications> = (params: ServerNotifications[M]) => void;

/** Handlers are given once and outlive every restart of the server. */
export class Connection {
  private transport: Transport | undefined;
  private readonly answers = new Map<string, (params: never, token: CancellationToken) => unknown>();
  private readonly listeners = new Map<string, Set<(params: never) => void>>();

  get connected(): boolean {
    return this.transport !== undefined;
  }

  /** From now on this is the server. */
  attach(transport: Transport): void {
    this.transport = transport;
    for (const [method, answer] of this.answers) transport.onRequest(method, answer);
    for (const method of this.listeners.keys()) {
      transport.onNotification(method, (params: never) => this.hear(method, params));
    }
  }

  detach(): void {
    this.transport = undefined;
  }

  async request<M extends keyof ClientRequests>(
    method: M,
    params: ClientRequests[M]['params'],
    token?: CancellationToken,
  ): Promise<ClientRequests[M]['result']> {
    if (!this.transport) throw new NotConnected();
    const result = await (token
      ? this.transport.sendRequest(method, params, token)
      : this.transport.sendRequest(method, params));
    return result as ClientRequests[M]['result'];
  }

  notify<M extends keyof ClientNotifications>(method: M, params: ClientNotifications[M]): void {
    // A server that goes away meanwhile asks for everything anew when it is there again.
    this.transport?.sendNotification(method, params).catch(() => {});
  }

  /** One answer for each kind of request; given before the server starts. */
  answer<M extends keyof ServerRequests>(method: M, answer: Answer<M>): void {
    this.answers.set(method, answer as (params: never, token: CancellationToken) => unknown);
  }

  on<M extends keyof ServerNotifications>(method: M, listener: Listener<M>): void {
    const known = this.listeners.get(method) ?? new Set();
    known.add(listener as (params: never) => void);
    this.listeners.set(method, known);
  }

  private hear(method: string, params: never): void {
    for (const listener of this.listeners.get(method) ?? []) listener(params);
  }
}
