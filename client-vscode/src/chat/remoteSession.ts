/** Polls a session whose turn runs in another window: the server sends updates only to the window that runs the turn. */

import type * as vscode from 'vscode';
import { messageOf } from '../errors.ts';
import type { Session } from '../protocol.gen.ts';

const POLL_MS = 3000;

export class RemoteSessionPoller implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** reloads the session and shows it; undefined if the session is no longer in view */
    private readonly reload: (sessionId: string) => Promise<Session | undefined>,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Polls this session, and no other, until its turn no longer runs in another window. */
  watch({ id, elsewhere }: Session): void {
    clearTimeout(this.timer);
    if (!elsewhere) return;
    this.timer = setTimeout(() => {
      this.reload(id).then(
        (session) => session && this.watch(session),
        (error) => this.log.warn(`polling session ${id}: ${messageOf(error)}`),
      );
    }, POLL_MS);
  }

  dispose(): void {
    clearTimeout(this.timer);
  }
}
