/** The agent's own questions (`user/ask`): a box above the composer, and a notification while nobody can see it. */

import * as vscode from 'vscode';
import type { Ask } from '../../webview/messages.ts';
import type { View } from '../chat/chatView.ts';
import { watched } from '../errors.ts';
import type { Connection } from '../server/connection.ts';

type Reply = (answer: string | null) => void;

export class Asks implements vscode.Disposable {
  private readonly held = new Map<string, { ask: Ask; reply: Reply }>();
  private count = 0;
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;

  constructor(
    connection: Connection,
    private readonly view: View,
    /** brings the session into view, because the user asked for it */
    private readonly show: (sessionId: string) => Promise<void>,
    private readonly log: vscode.LogOutputChannel,
  ) {
    connection.answer('pilotfish/user/ask', async ({ sessionId, question, options }, token) => {
      const answer = await this.ask(sessionId, question, options, token);
      return answer === null ? { dismissed: true } : { answer, dismissed: false };
    });
  }

  get open(): readonly Ask[] {
    return [...this.held.values()].map(({ ask }) => ask);
  }

  /** null: the user does not want to answer. */
  answer(id: string, answer: string | null): void {
    this.held.get(id)?.reply(answer);
  }

  /** The server is gone, and its questions with it. */
  clear(): void {
    for (const { reply } of [...this.held.values()]) reply(null);
  }

  dispose(): void {
    this.changed.dispose();
  }

  private ask(
    sessionId: string,
    question: string,
    options: readonly string[],
    token: vscode.CancellationToken,
  ): Promise<string | null> {
    return new Promise((resolve) => {
      this.count += 1;
      const ask: Ask = { id: `ask-${this.count}`, sessionId, question, options };
      const reply: Reply = (answer) => {
        if (!this.held.delete(ask.id)) return;
        this.view.post({ type: 'askOver', id: ask.id });
        this.changed.fire();
        resolve(answer);
      };
      this.held.set(ask.id, { ask, reply });
      token.onCancellationRequested(() => reply(null));
      this.view.post({ type: 'ask', ask });
      this.changed.fire();
      const quiet = vscode.workspace.getConfiguration('pilotfish').get('notify') === 'never';
      if (!this.view.isVisible && !quiet) watched(this.notify(ask), this.log);
    });
  }

  private async notify(ask: Ask): Promise<void> {
    const show = vscode.l10n.t('Show');
    const offered = ask.options.slice(0, 3);
    const pressed = await vscode.window.showInformationMessage(`Pilotfish: ${ask.question}`, ...offered, show);
    if (pressed === show) await this.show(ask.sessionId);
    else if (pressed !== undefined) this.answer(ask.id, pressed);
  }
}
