/** The tree view with the sessions of this workspace. */

import * as vscode from 'vscode';
import { ago } from '../../webview/common/format.ts';
import type { Waiting } from '../approvals/waiting.ts';
import type { Drafts } from '../chat/drafts.ts';
import { messageOf } from '../errors.ts';
import type { Session, SessionListResult } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';
import { treeItem } from '../widgets.ts';
import { stateOf } from './background.ts';
import type { FinishedTurns } from './finishedTurns.ts';
import { workspaceFolder } from './workspaceFolder.ts';

export const SESSIONS_VIEWS = ['pilotfish.sessions', 'pilotfish.sessionsPrimary'] as const;
const PAGE_SIZE = 100;
const MAX_SEARCH_RESULTS = 50;
const RELOAD_DELAY_MS = 100;

type Group = 'waiting' | 'running' | 'today' | 'week' | 'earlier';
type Node = { group: Group; sessions: readonly Session[] } | Session;

export class SessionTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private sessions: readonly Session[] = [];
  private timer: NodeJS.Timeout | undefined;
  private readonly changed = new vscode.EventEmitter<undefined>();
  private readonly loaded = new vscode.EventEmitter<readonly Session[]>();
  readonly onDidChangeTreeData = this.changed.event;
  readonly onDidLoad = this.loaded.event;
  /** the user opened the sessions in the activity bar */
  readonly onDidReveal: vscode.Event<unknown>;
  private readonly trees: vscode.TreeView<Node>[];
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly connection: Connection,
    private readonly waiting: Waiting,
    private readonly finished: FinishedTurns,
    private readonly drafts: Drafts,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.trees = SESSIONS_VIEWS.map((id) =>
      vscode.window.createTreeView(id, { treeDataProvider: this, showCollapseAll: false }),
    );
    this.onDidReveal = (listener) => {
      const primary = this.trees[1];
      return primary
        ? primary.onDidChangeVisibility(({ visible }) => visible && listener(undefined))
        : new vscode.Disposable(() => {});
    };
    this.subscriptions = [
      waiting.onDidChange(() => this.render()),
      finished.onDidChange(() => this.render()),
      vscode.window.onDidChangeWindowState(({ focused }) => focused && this.reloadSoon()),
      ...this.trees,
      ...this.trees.map((tree) => tree.onDidChangeVisibility(({ visible }) => visible && this.reloadSoon())),
    ];
    connection.on('pilotfish/session/listChanged', () => this.reloadSoon());
    connection.on('pilotfish/session/update', ({ update, sessionId }) => {
      if (update.kind === 'session_info') this.upsert(update.session);
      else if (update.kind === 'turn_started') this.setBusy(sessionId, true);
      else if (update.kind === 'turn_ended') this.setBusy(sessionId, false);
    });
  }

  get all(): readonly Session[] {
    return this.sessions;
  }

  find(id: string): Session | undefined {
    return this.sessions.find((session) => session.id === id);
  }

  /** Loads the list after a short delay; several calls cause one load. */
  reloadSoon(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.load().catch((error) => this.log.warn(`sessions: ${messageOf(error)}`));
    }, RELOAD_DELAY_MS);
  }

  async load(): Promise<void> {
    if (!this.connection.connected) return;
    const folder = workspaceFolder();
    const { sessions } = await this.connection.request('pilotfish/session/list', {
      limit: PAGE_SIZE,
      ...(folder && { workspaceFolder: folder }),
    });
    this.sessions = sessions;
    this.loaded.fire(sessions);
    this.render();
  }

  /** Searches titles and messages on the server. */
  async search(query: string): Promise<SessionListResult> {
    const folder = workspaceFolder();
    return this.connection.request('pilotfish/session/list', {
      query,
      limit: MAX_SEARCH_RESULTS,
      ...(folder && { workspaceFolder: folder }),
    });
  }

  /** Adds a session, or replaces it if it is already listed. */
  upsert(session: Session): void {
    const others = this.sessions.filter((one) => one.id !== session.id);
    this.sessions = [session, ...others].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
    this.render();
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  getChildren(node?: Node): Node[] {
    if (!node) return this.groups();
    return 'group' in node ? [...node.sessions] : [];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    if ('group' in node) {
      return treeItem({ id: `group.${node.group}`, label: groupTitle(node.group), expanded: true });
    }
    const waiting = this.waiting.countOf(node.id);
    const unread = this.finished.isUnread(node.id);
    const age = ago(node.updatedAt, Date.now());
    const task = node.background ? `${stateOf(node.background)} · ` : '';
    const detail = waiting > 0 ? waitingCount(waiting) : unread ? `${vscode.l10n.t('finished')} · ${age}` : age;
    return treeItem({
      id: node.id,
      label: node.title || vscode.l10n.t('Untitled'),
      description: `${task}${detail}${this.drafts.has(node.id) ? ` · ${vscode.l10n.t('draft')}` : ''}`,
      tooltip: [node.title, new Date(node.updatedAt).toLocaleString(), node.model],
      icon: waiting > 0 ? 'question' : node.busy ? 'loading~spin' : unread ? 'comment-unread' : 'comment',
      contextValue: node.background ? 'session.background' : 'session',
      command: { command: 'pilotfish.sessions.open', title: vscode.l10n.t('Open'), arguments: [node] },
    });
  }

  private groups(): Node[] {
    const groups: Record<Group, Session[]> = { waiting: [], running: [], today: [], week: [], earlier: [] };
    for (const session of this.sessions) groups[this.groupOf(session)].push(session);
    return (Object.keys(groups) as Group[])
      .filter((group) => groups[group].length > 0)
      .map((group) => ({ group, sessions: groups[group] }));
  }

  private groupOf(session: Session): Group {
    if (this.waiting.countOf(session.id) > 0) return 'waiting';
    if (session.busy) return 'running';
    const age = Date.now() - Date.parse(session.updatedAt);
    const day = 24 * 3600 * 1000;
    return age < day ? 'today' : age < 7 * day ? 'week' : 'earlier';
  }

  private setBusy(sessionId: string, busy: boolean): void {
    if (!this.find(sessionId)) {
      this.reloadSoon();
      return;
    }
    const now = new Date().toISOString();
    this.sessions = this.sessions.map((one) => (one.id === sessionId ? { ...one, busy, updatedAt: now } : one));
    this.render();
  }

  /** Renders the tree again. */
  render(): void {
    const waiting = this.waiting.items.length;
    for (const tree of this.trees) tree.description = waiting > 0 ? vscode.l10n.t('{0} waiting', waiting) : '';
    this.changed.fire(undefined);
  }
}

function groupTitle(group: Group): string {
  switch (group) {
    case 'waiting':
      return vscode.l10n.t('Waiting for you');
    case 'running':
      return vscode.l10n.t('Working');
    case 'today':
      return vscode.l10n.t('Today');
    case 'week':
      return vscode.l10n.t('This week');
    case 'earlier':
      return vscode.l10n.t('Earlier');
    default:
      return group satisfies never;
  }
}

function waitingCount(n: number): string {
  return n === 1 ? vscode.l10n.t('1 question') : vscode.l10n.t('{0} questions', n);
}
