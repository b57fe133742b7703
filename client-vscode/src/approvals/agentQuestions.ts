/** Questions that the agent asks in its own words (`user/ask`): shown above the composer, or as a notification. */

import * as vscode from 'vscode';
import type { Ask } from '../../webview/messages.ts';
import type { ChatView } from '../chat/chatView.ts';
import { reportRejection } from '../errors.ts';
import type { Connection } from '../server/connection.ts';
import { showInfo } from '../widgets.ts';

const MAX_NOTIFICATION_OPTIONS = 3;

type Reply = (answer: string | null) => void;

export class AgentQuestions implements vscode.Disposable {
  private readonly entries = new Map<string, { ask: Ask; reply: Reply }>();
  private count = 0;
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;

  constructor(
    connection: Connection,
    private readonly view: ChatView,
    /** opens the session and focuses the chat */
    private readonly showSession: (sessionId: string) => Promise<void>,
    private readonly log: vscode.LogOutputChannel,
  ) {
    connection.answer('pilotfish/user/ask', async ({ sessionId, question, options }, token) => {
      const answer = await this.ask(sessionId, question, options, token);
      return answer === null ? { dismissed: true } : { answer, dismissed: false };
    });
  }

  get pending(): readonly Ask[] {
    return [...this.entries.values()].map(({ ask }) => ask);
  }

  /** Answers a question; null dismisses it. */
  answer(id: string, answer: string | null): void {
    this.entries.get(id)?.reply(answer);
  }

  /** Dismisses all questions, because the server is gone. */
  clear(): void {
    for (const { reply } of [...this.entries.values()]) reply(null);
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
        if (!this.entries.delete(ask.id)) return;
        this.view.post({ type: 'askOver', id: ask.id });
        this.changed.fire();
        resolve(answer);
      };
      this.entries.set(ask.id, { ask, reply });
      token.onCancellationRequested(() => reply(null));
      this.view.post({ type: 'ask', ask });
      this.changed.fire();
      const silenced = vscode.workspace.getConfiguration('pilotfish').get('notify') === 'never';
      if (!this.view.isVisible && !silenced) reportRejection(this.notify(ask), this.log);
    });
  }

  private async notify(ask: Ask): Promise<void> {
    const show = vscode.l10n.t('Show');
    const options = ask.options.slice(0, MAX_NOTIFICATION_OPTIONS);
    const pressed = await showInfo(`Pilotfish: ${ask.question}`, ...options, show);
    if (pressed === show) await this.showSession(ask.sessionId);
    else if (pressed !== undefined) this.answer(ask.id, pressed);
  }
}
