/** Typed requests and notifications to and from the server. */

import type { CancellationToken, Disposable } from 'vscode';
import type { ClientNotifications, ClientRequests, ServerNotifications, ServerRequests } from '../protocol.gen.ts';

/** The part of a language client that a connection needs. */
export interface Transport {
  sendRequest(method: string, params: unknown, token?: CancellationToken): Promise<unknown>;
  sendNotification(method: string, params: unknown): Promise<void>;
  onRequest(method: string, handler: (params: never, token: CancellationToken) => unknown): Disposable;
  onNotification(method: string, handler: (params: never) => void): Disposable;
}

/** A request was made while no server is running. */
export class NotConnected extends Error {
  constructor() {
    super('Pilotfish is not running.');
  }
}

type Handler<M extends keyof ServerRequests> = (
  params: ServerRequests[M]['params'],
  token: CancellationToken,
) => Promise<ServerRequests[M]['result']> | ServerRequests[M]['result'];
type Listener<M extends keyof ServerNotifications> = (params: ServerNotifications[M]) => void;

/** Handlers and listeners are registered once and stay registered when the server restarts. */
export class Connection {
  private transport: Transport | undefined;
  /** waits until a server is attached, and installs it if need be; set by `Server` */
  connect: () => Promise<void> = () => Promise.reject(new NotConnected());
  private readonly handlers = new Map<string, (params: never, token: CancellationToken) => unknown>();
  private readonly listeners = new Map<string, Set<(params: never) => void>>();

  get connected(): boolean {
    return this.transport !== undefined;
  }

  /** Uses this transport from now on, and registers all handlers and listeners with it. */
  attach(transport: Transport): void {
    this.transport = transport;
    for (const [method, handler] of this.handlers) transport.onRequest(method, handler);
    for (const method of this.listeners.keys()) {
      transport.onNotification(method, (params: never) => this.dispatch(method, params));
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
    if (!this.transport) await this.connect();
    if (!this.transport) throw new NotConnected();
    const result = await (token
      ? this.transport.sendRequest(method, params, token)
      : this.transport.sendRequest(method, params));
    return result as ClientRequests[M]['result'];
  }

  /** Returns when the notification was handed over: what is sent after that arrives later. */
  async notify<M extends keyof ClientNotifications>(method: M, params: ClientNotifications[M]): Promise<void> {
    // A failure means that the server stopped. It requests all state again after a restart.
    await this.transport?.sendNotification(method, params).catch(() => {});
  }

  /** Handles a request of the server. Register handlers before the server starts. */
  answer<M extends keyof ServerRequests>(method: M, handler: Handler<M>): void {
    this.handlers.set(method, handler as (params: never, token: CancellationToken) => unknown);
  }

  on<M extends keyof ServerNotifications>(method: M, listener: Listener<M>): void {
    const listeners = this.listeners.get(method) ?? new Set();
    listeners.add(listener as (params: never) => void);
    this.listeners.set(method, listeners);
  }

  private dispatch(method: string, params: never): void {
    for (const listener of this.listeners.get(method) ?? []) listener(params);
  }
}
