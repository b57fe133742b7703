/** Work that takes minutes, such as a download: shown in the chat with its progress, and cancelled there. */

import * as vscode from 'vscode';
import type { TaskState } from '../../webview/messages.ts';
import { messageOf } from '../errors.ts';
import { InstallFailed, type Report } from '../server/installServer.ts';

export class LongTask implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<TaskState | null>();
  readonly onDidChange = this.changed.event;
  private cancelling: vscode.CancellationTokenSource | undefined;
  /** null: nothing runs, and nothing failed that the user has not seen */
  state: TaskState | null = null;

  constructor(
    private readonly reveal: () => Promise<void>,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Runs the work, one at a time. Returns whether it was done; a failure stays in the chat until it is dismissed. */
  async run(work: (report: Report, token: vscode.CancellationToken) => Promise<void>): Promise<boolean> {
    if (this.cancelling) return false;
    const cancelling = new vscode.CancellationTokenSource();
    this.cancelling = cancelling;
    const since = Date.now();
    const report: Report = (percent, step) => this.set({ status: 'running', step, percent, since });
    await this.reveal();
    try {
      await work(report, cancelling.token);
      this.set(null);
      return true;
    } catch (error) {
      const command = error instanceof InstallFailed ? error.command : undefined;
      this.log.warn(messageOf(error));
      this.set(
        cancelling.token.isCancellationRequested
          ? null
          : { status: 'failed', reason: messageOf(error), ...(command !== undefined && { command }) },
      );
      return false;
    } finally {
      this.cancelling = undefined;
      cancelling.dispose();
    }
  }

  cancel(): void {
    this.cancelling?.cancel();
  }

  dismiss(): void {
    if (this.state?.status === 'failed') this.set(null);
  }

  dispose(): void {
    this.cancel();
    this.changed.dispose();
  }

  private set(state: TaskState | null): void {
    this.state = state;
    this.changed.fire(state);
  }
}
