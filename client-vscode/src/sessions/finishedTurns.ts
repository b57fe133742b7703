/** Turns that ended while their session was not in view: their sessions are unread until the user opens them. */

import * as vscode from 'vscode';
import { basename, files as fileCount } from '../../webview/common/format.ts';
import { isInlinePrompt } from '../editor/inlineEdit.ts';
import { reportRejection } from '../errors.ts';
import type { UpdateParams } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { showInfo } from '../widgets.ts';

const STORAGE_KEY = 'pilotfish.unread';
const MAX_RESULT = 100;
const MAX_FILES = 3;

/** What a running turn has said and changed so far. */
interface TurnSummary {
  isInline: boolean;
  itemId: string;
  text: string;
  files: Set<string>;
}

export class FinishedTurns implements vscode.Disposable {
  private unread: ReadonlySet<string>;
  private readonly running = new Map<string, TurnSummary>();
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;

  constructor(
    connection: Connection,
    private readonly storage: vscode.Memento,
    /** whether the chat is visible and shows this session */
    private readonly isInView: (sessionId: string) => boolean,
    private readonly titleOf: (sessionId: string) => string | undefined,
    /** opens the session and focuses the chat */
    private readonly showSession: (sessionId: string) => Promise<void>,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.unread = new Set(storage.get<string[]>(STORAGE_KEY, []));
    connection.on('pilotfish/session/update', (params) => this.handleUpdate(params));
  }

  get count(): number {
    return this.unread.size;
  }

  isUnread(sessionId: string): boolean {
    return this.unread.has(sessionId);
  }

  /** The user sees the session, or it is deleted. */
  markRead(sessionId: string | undefined): void {
    if (sessionId === undefined || !this.unread.has(sessionId)) return;
    this.setUnread([...this.unread].filter((id) => id !== sessionId));
  }

  dispose(): void {
    this.changed.dispose();
  }

  private handleUpdate({ sessionId, turnId, update }: UpdateParams): void {
    const summary = this.running.get(turnId);
    switch (update.kind) {
      case 'turn_started':
        this.running.set(turnId, {
          isInline: isInlinePrompt(update.promptId),
          itemId: '',
          text: '',
          files: new Set(),
        });
        break;
      case 'agent_message_chunk':
        if (!summary) break;
        if (summary.itemId !== update.itemId) Object.assign(summary, { itemId: update.itemId, text: '' });
        if (summary.text.length < MAX_RESULT * 4) summary.text += update.text;
        break;
      case 'file_changed':
        summary?.files.add(basename(update.uri));
        break;
      case 'turn_ended': {
        this.running.delete(turnId);
        if (this.isInView(sessionId) || update.stopReason === 'cancelled') break;
        if (summary?.isInline) break; // its result is shown where the user asked for it
        // An interrupted turn is closed when its session is opened again, so the user sees it.
        if (update.error?.kind === 'closed' || update.error?.kind === 'restarted') break;
        this.setUnread([...this.unread, sessionId]);
        const enabled = vscode.workspace.getConfiguration('pilotfish').get('notifyFinished', true);
        const message = finishedMessage(this.titleOf(sessionId), update.error?.message ?? summary?.text ?? '', [
          ...(summary?.files ?? []),
        ]);
        if (enabled) reportRejection(this.notify(sessionId, message), this.log);
        break;
      }
      default:
        break;
    }
  }

  private async notify(sessionId: string, message: string): Promise<void> {
    const show = vscode.l10n.t('Show');
    if ((await showInfo(`Pilotfish: ${message}`, show)) === show) await this.showSession(sessionId);
  }

  private setUnread(ids: readonly string[]): void {
    this.unread = new Set(ids);
    void this.storage.update(STORAGE_KEY, [...this.unread]);
    this.changed.fire();
  }
}

/** "Fix the login: Done, the test passes. (2 files: auth.py, token.py)" */
export function finishedMessage(title: string | undefined, result: string, files: readonly string[]): string {
  const line = result.split('\n').find((one) => /\w/.test(one)) ?? '';
  const plain = line.replace(/[*_`#>]/g, '').trim();
  const short = plain.length > MAX_RESULT ? `${plain.slice(0, MAX_RESULT - 1)}…` : plain;
  const names = files.length > MAX_FILES ? [...files.slice(0, MAX_FILES), '…'] : files;
  const changed = files.length > 0 ? ` (${fileCount(files.length)}: ${names.join(', ')})` : '';
  return `${title || vscode.l10n.t('Untitled')}: ${short || vscode.l10n.t('Done')}${changed}`;
}
