/** A transport that records what is sent and lets a test play the server. */

import type { CancellationToken } from 'vscode';
import { Approvals } from '../../../src/approvals/approvals.ts';
import type { ApprovalRequest } from '../../../src/protocol.gen.ts';
import { Connection, type Transport } from '../../../src/server/connection.ts';

type Handler = (params: never, token: CancellationToken) => unknown;

export class FakeTransport implements Transport {
  readonly sent: [string, unknown][] = [];
  readonly requests = new Map<string, Handler>();
  readonly notifications = new Map<string, (params: never) => void>();

  async sendRequest(method: string, params: unknown): Promise<unknown> {
    this.sent.push([method, params]);
    return { accepted: true };
  }
  async sendNotification(method: string, params: unknown): Promise<void> {
    this.sent.push([method, params]);
  }
  onRequest(method: string, handler: Handler) {
    this.requests.set(method, handler);
    return { dispose: () => {} };
  }
  onNotification(method: string, handler: (params: never) => void) {
    this.notifications.set(method, handler);
    return { dispose: () => {} };
  }

  /** Requests an approval from the client. */
  requestApproval(request: ApprovalRequest): { answer: Promise<unknown>; cancel: () => void } {
    const listeners: (() => void)[] = [];
    const token = {
      onCancellationRequested: (listener: () => void) => listeners.push(listener),
    } as unknown as CancellationToken;
    const answer = Promise.resolve(this.requests.get('pilotfish/approval/request')?.(request as never, token));
    const cancel = () => {
      for (const listener of listeners) listener();
    };
    return { answer, cancel };
  }
}

export function connected() {
  const connection = new Connection();
  const approvals = new Approvals(connection);
  const transport = new FakeTransport();
  connection.attach(transport);
  return { connection, approvals, transport };
}
