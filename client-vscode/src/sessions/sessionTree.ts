/** The sessions of this workspace as a native tree: search, keyboard and screen reader come with it. */

import * as vscode from 'vscode';
import type { Approvals } from '../approvals/approvals.ts';
import type { Drafts } from '../chat/drafts.ts';
import { messageOf } from '../errors.ts';
import type { Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

export const SESSIONS_VIEWS = ['pilotfish.sessions', 'pilotfish.sessionsPrimary'] as const;
const PAGE = 100;

type Group = 'waiting' | 'running' | 'today' | 'week' | 'earlier';
type Node = { group: Group; sessions: readonly Session[] } | Session;

export class Sessions implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private sessions: readonly Session[] = [];
  private timer: NodeJS.Timeout | undefined;
  private readonly changed = new vscode.EventEmitter<undefined>();
  private readonly listed = new vscode.EventEmitter<readonly Session[]>();
  readonly onDidChangeTreeData = this.changed.event;
  readonly onDidList = this.listed.event;
  private readonly trees: vscode.TreeView<Node>[];
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly connection: Connection,
    private readonly approvals: Approvals,
    private readonly drafts: Drafts,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.trees = SESSIONS_VIEWS.map((id) =>
      vscode.window.createTreeView(id, { treeDataProvider: this, showCollapseAll: false }),
    );
    this.subscriptions = [approvals.onDidChange(() => this.show()), ...this.trees];
    connection.on('pilotfish/session/update', ({ update, sessionId }) => {
      if (update.kind === 'session_info') this.noted(update.session);
      else if (update.kind === 'turn_started') this.busy(sessionId, true);
      else if (update.kind === 'turn_ended') this.busy(sessionId, false);
    });
  }

  get all(): readonly Session[] {
    return this.sessions;
  }

  find(id: string): Session | undefined {
    return this.sessions.find((session) => session.id === id);
  }

  /** Soon, and once for many reasons. */
  refresh(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.load().catch((error) => this.log.warn(`sessions: ${messageOf(error)}`));
    }, 100);
  }

  async load(): Promise<void> {
    if (!this.connection.connected) return;
    const folder = workspaceFolder();
    const { sessions } = await this.connection.request('pilotfish/session/list', {
      limit: PAGE,
      ...(folder && { workspaceFolder: folder }),
    });
    this.sessions = sessions;
    this.listed.fire(sessions);
    this.show();
  }

  /** Titles and texts, on the server. */
  async search(query: string): Promise<readonly Session[]> {
    const folder = workspaceFolder();
    const { sessions } = await this.connection.request('pilotfish/session/list', {
      query,
      limit: 50,
      ...(folder && { workspaceFolder: folder }),
    });
    return sessions;
  }

  /** A session as it is now, new or changed. */
  noted(session: Session): void {
    const others = this.sessions.filter((one) => one.id !== session.id);
    this.sessions = [session, ...others].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
    this.show();
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
      const item = new vscode.TreeItem(groupWords(node.group), vscode.TreeItemCollapsibleState.Expanded);
      item.id = `group.${node.group}`;
      return item;
    }
    const waiting = this.waiting(node.id);
    const item = new vscode.TreeItem(node.title || vscode.l10n.t('Untitled'));
    item.id = node.id;
    item.contextValue = 'session';
    const age = waiting > 0 ? approvalWords(waiting) : agoWords(node.updatedAt);
    item.description = this.drafts.has(node.id) ? `${age} · ${vscode.l10n.t('draft')}` : age;
    item.tooltip = `${node.title}\n${new Date(node.updatedAt).toLocaleString()}\n${node.model}`;
    item.iconPath = new vscode.ThemeIcon(waiting > 0 ? 'question' : node.busy ? 'loading~spin' : 'comment');
    item.command = { command: 'pilotfish.sessions.open', title: vscode.l10n.t('Open'), arguments: [node] };
    item.accessibilityInformation = { label: `${node.title}, ${item.description}` };
    return item;
  }

  private groups(): Node[] {
    const by: Record<Group, Session[]> = { waiting: [], running: [], today: [], week: [], earlier: [] };
    for (const session of this.sessions) by[this.groupOf(session)].push(session);
    return (Object.keys(by) as Group[])
      .filter((group) => by[group].length > 0)
      .map((group) => ({ group, sessions: by[group] }));
  }

  private groupOf(session: Session): Group {
    if (this.waiting(session.id) > 0) return 'waiting';
    if (session.busy) return 'running';
    const age = Date.now() - Date.parse(session.updatedAt);
    const day = 24 * 3600 * 1000;
    return age < day ? 'today' : age < 7 * day ? 'week' : 'earlier';
  }

  private waiting(sessionId: string): number {
    return this.approvals.open.filter((request) => request.sessionId === sessionId).length;
  }

  private busy(sessionId: string, busy: boolean): void {
    if (!this.find(sessionId)) {
      this.refresh();
      return;
    }
    const now = new Date().toISOString();
    this.sessions = this.sessions.map((one) => (one.id === sessionId ? { ...one, busy, updatedAt: now } : one));
    this.show();
  }

  /** The tree as it is now. */
  show(): void {
    const open = this.approvals.open.length;
    for (const tree of this.trees) tree.description = open > 0 ? vscode.l10n.t('{0} waiting', open) : '';
    this.changed.fire(undefined);
  }
}

export function workspaceFolder(): string | undefined {
  return vscode.workspace.workspaceFolders?.[0]?.uri.toString();
}

function groupWords(group: Group): string {
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

function approvalWords(n: number): string {
  return n === 1 ? vscode.l10n.t('1 approval') : vscode.l10n.t('{0} approvals', n);
}

export function agoWords(iso: string): string {
  const minutes = Math.floor((Date.now() - Date.parse(iso)) / 60_000);
  if (minutes < 1) return vscode.l10n.t('now');
  if (minutes < 60) return vscode.l10n.t('{0}m', minutes);
  if (minutes < 60 * 24) return vscode.l10n.t('{0}h', Math.floor(minutes / 60));
  return vscode.l10n.t('{0}d', Math.floor(minutes / 60 / 24));
}
