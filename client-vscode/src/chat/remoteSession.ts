/** A session whose turn another window runs: only that window is told of it, so here it is looked at until it is over. */

import type * as vscode from 'vscode';
import { messageOf } from '../errors.ts';
import type { Session } from '../protocol.gen.ts';

/** How often it is looked at, in ms. */
const LOOK_AGAIN = 3000;

export class Elsewhere implements vscode.Disposable {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    /** shows the session as it is now; undefined: nobody looks at it any more */
    private readonly look: (sessionId: string) => Promise<Session | undefined>,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** From now on this session, if its turn runs elsewhere, and no other. */
  watch({ id, elsewhere }: Session): void {
    clearTimeout(this.timer);
    if (!elsewhere) return;
    this.timer = setTimeout(() => {
      this.look(id).then(
        (session) => session && this.watch(session),
        (error) => this.log.warn(`looking again: ${messageOf(error)}`),
      );
    }, LOOK_AGAIN);
  }

  dispose(): void {
    clearTimeout(this.timer);
  }
}
