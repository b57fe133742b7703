/** Palette, menus and keys, and what the chat asks for that is no matter of a session. One table. */

import * as vscode from 'vscode';
import type { Chip, FromView, ViewCommand } from '../webview/messages.ts';
import type { Approvals } from './approvals.ts';
import { documentChip, fileChip, problemChips, selectionChip } from './attach.ts';
import type { Chat } from './chat.ts';
import type { Connection } from './connection.ts';
import { openFile, openLink } from './links.ts';
import type { Models } from './models.ts';
import { type Proposals, questionOf } from './proposals.ts';
import type { ChatDraft, ContentBlock, Session } from './protocol.gen.ts';
import { showCallDiff, showReview } from './review.ts';
import type { Server } from './server.ts';
import { agoWords, type Sessions } from './sessions.ts';

export interface Rooms {
  connection: Connection;
  server: Server;
  chat: Chat;
  approvals: Approvals;
  proposals: Proposals;
  sessions: Sessions;
  models: Models;
  log: vscode.LogOutputChannel;
}

export function registerCommands(rooms: Rooms): vscode.Disposable[] {
  const { server, chat, models, log } = rooms;
  const table: Record<string, (...args: never[]) => unknown> = {
    openChat: (draft?: ChatDraft) => openChat(rooms, draft),
    newSession: async () => {
      await chat.open(null);
      await chat.tell({ type: 'focus' });
    },
    stop: () => chat.stop(),
    retry: () => retry(rooms),
    undoTurn: () => chat.undo(undefined, 'undo', false),
    redoTurn: () => chat.undo(undefined, 'redo', false),
    allow: () => answerByKey(rooms, 'allow_once'),
    deny: () => answerByKey(rooms, 'reject'),
    nextWaiting: () => showQuestion(rooms, rooms.approvals.open[0]?.approvalId),
    showDiff: () => rooms.proposals.showQuestion(rooms.approvals.open[0]?.approvalId ?? '', 0, false),
    allowAmended: (uri?: vscode.Uri) => allowAmended(rooms, uri),
    discardAmended: (uri?: vscode.Uri) => rooms.proposals.discard(questionOf(uri ?? activeUri()) ?? ''),
    attachSelection: () => attach(rooms, selectionChip(vscode.window.activeTextEditor)),
    attachFile: async (uri?: vscode.Uri) => attach(rooms, await fileOrDocument(uri)),
    explain: () => explain(rooms),
    fixProblems: () => fixProblems(rooms),
    selectModel: () => models.select(),
    selectMode: () => models.selectMode(),
    setKey: () => models.setKey(),
    rules: () => rules(rooms),
    status: () => status(rooms),
    menu: () => menu(rooms),
    settings: () => vscode.commands.executeCommand('workbench.action.openSettings', '@ext:pilotfish.pilotfish'),
    walkthrough: () =>
      vscode.commands.executeCommand('workbench.action.openWalkthrough', 'pilotfish.pilotfish#start', false),
    restart: () => server.restart(),
    install: () => server.install(),
    showLog: () => log.show(),
    'sessions.search': () => search(rooms),
    'sessions.refresh': () => rooms.sessions.refresh(),
    'sessions.open': (session: Session) => openSession(rooms, session.id),
    'sessions.rename': (session?: Session) => rename(rooms, session ?? chat.session),
    'sessions.delete': (session?: Session) => remove(rooms, session ?? chat.session),
    'sessions.fork': (session?: Session) => fork(rooms, session ?? chat.session),
    'sessions.export': (session?: Session) => exported(rooms, session ?? chat.session),
  };
  return Object.entries(table).map(([name, run]) =>
    vscode.commands.registerCommand(`pilotfish.${name}`, async (...args: never[]) => {
      try {
        return await run(...args);
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        log.error(`${name}: ${message}`);
        void vscode.window.showErrorMessage(`Pilotfish: ${message}`);
        return undefined;
      }
    }),
  );
}

const VIEW_COMMANDS: Record<ViewCommand, string> = {
  newSession: 'pilotfish.newSession',
  selectModel: 'pilotfish.selectModel',
  selectMode: 'pilotfish.selectMode',
  setKey: 'pilotfish.setKey',
  restart: 'pilotfish.restart',
  showLog: 'pilotfish.showLog',
  install: 'pilotfish.install',
  settings: 'pilotfish.settings',
  walkthrough: 'pilotfish.walkthrough',
  attachFile: 'pilotfish.attachFile',
  attachPick: 'pilotfish.attachPick',
  attachSelection: 'pilotfish.attachSelection',
  explain: 'pilotfish.explain',
  trust: 'workbench.trust.manage',
  rules: 'pilotfish.rules',
  searchSessions: 'pilotfish.sessions.search',
  nextWaiting: 'pilotfish.nextWaiting',
};

/** What the view asks for beside its session. */
export async function fromView(rooms: Rooms, message: FromView): Promise<void> {
  const { proposals, chat } = rooms;
  switch (message.type) {
    case 'command':
      if (message.command === 'attachPick') await attachPick(rooms);
      else await vscode.commands.executeCommand(VIEW_COMMANDS[message.command]);
      return;
    case 'amend':
      await proposals.showQuestion(message.approvalId, 0, false);
      return;
    case 'openDiff':
      await proposals.showQuestion(message.approvalId, message.file, true);
      return;
    case 'openCallDiff':
      await showCallDiff(proposals, message.uri, message.diff);
      return;
    case 'review':
      await showReview(proposals, message.title, message.files);
      return;
    case 'openLink':
      await openLink(message.href);
      return;
    case 'openFile':
      await openFile(vscode.Uri.parse(message.uri), message.line);
      return;
    case 'openText':
      await proposals.showText(message.text, message.language);
      return;
    case 'copy':
      await vscode.env.clipboard.writeText(message.text);
      return;
    case 'insert':
      await insert(message.text);
      return;
    case 'terminal': {
      const terminal = vscode.window.activeTerminal ?? vscode.window.createTerminal();
      terminal.show(true);
      terminal.sendText(message.text.trimEnd(), false);
      return;
    }
    case 'applyCode':
      await suggest(proposals, message.text);
      return;
    case 'dropped':
      chat.post({ type: 'attach', chips: await Promise.all(message.uris.map((uri) => fileChip(localUri(uri)))) });
      return;
    case 'problem':
      rooms.log.warn(message.what);
      if (!message.what.startsWith('CSP')) void vscode.window.showWarningMessage(`Pilotfish: ${message.what}`);
      return;
    default:
      rooms.log.warn(`the view said ${message.type}`);
  }
}

/** The question's card in sight, in its session; the focus follows because the user asked. */
export async function showQuestion({ approvals, chat }: Rooms, approvalId: string | undefined): Promise<void> {
  const request = approvalId === undefined ? undefined : approvals.find(approvalId);
  if (!request) {
    void vscode.window.setStatusBarMessage(vscode.l10n.t('Pilotfish: nothing waits'), 3000);
    return;
  }
  if (request.sessionId !== chat.session?.id) await chat.open(request.sessionId);
  await chat.tell({ type: 'reveal', approvalId: request.approvalId });
}

/** A chord answers only what can be seen; otherwise it brings it into sight, and the next one answers. */
async function answerByKey(rooms: Rooms, optionId: 'allow_once' | 'reject'): Promise<void> {
  const { approvals, chat } = rooms;
  const next = approvals.open.find((request) => request.sessionId === chat.session?.id) ?? approvals.open[0];
  if (!next) return;
  if (approvals.isInSight(next.approvalId)) {
    if (approvals.hearsKeys(next.approvalId)) await approvals.answer(next.approvalId, { optionId });
    return;
  }
  await showQuestion(rooms, next.approvalId);
}

async function openChat({ chat }: Rooms, draft: ChatDraft | undefined): Promise<void> {
  if (!draft?.prompt) {
    await chat.tell({ type: 'focus' });
    return;
  }
  const words = draft.prompt.find((block) => block.type === 'text');
  const chips = draft.prompt.filter((block) => block !== words).map(blockChip);
  await chat.tell({
    type: 'compose',
    text: words?.type === 'text' ? words.text : '',
    chips,
    send: draft.send ?? false,
  });
}

function blockChip(block: ContentBlock, index: number): Chip {
  switch (block.type) {
    case 'resource': {
      const name = vscode.workspace.asRelativePath(vscode.Uri.parse(block.uri));
      const lines = block.range ? `:${block.range.start.line + 1}–${block.range.end.line + 1}` : '';
      return {
        id: `${block.uri}${lines}`,
        label: `${name.split('/').at(-1)}${lines}`,
        detail: name,
        icon: block.range ? 'selection' : 'file',
        block,
      };
    }
    case 'diagnostic':
      return {
        id: `${block.uri}!${index}`,
        label: block.diagnostic.message.split('\n', 1)[0] ?? '',
        icon: 'problem',
        block,
      };
    case 'image':
      return { id: `image-${index}`, label: vscode.l10n.t('Image'), icon: 'image', block };
    case 'text':
      return { id: `text-${index}`, label: vscode.l10n.t('Text'), icon: 'paste', block };
    default:
      return block satisfies never;
  }
}

async function retry({ chat, connection }: Rooms): Promise<void> {
  if (!chat.session) return;
  const { items } = await connection.request('pilotfish/session/load', { sessionId: chat.session.id, limit: 500 });
  const last = items.findLast((item) => item.kind === 'prompt');
  if (last?.kind !== 'prompt') return;
  const words = last.prompt.find((block) => block.type === 'text');
  const chips = last.prompt.filter((block) => block !== words).map(blockChip);
  await chat.tell({ type: 'compose', text: words?.type === 'text' ? words.text : '', chips, send: true });
}

async function attach({ chat }: Rooms, chip: Chip | undefined): Promise<void> {
  if (!chip) {
    void vscode.window.setStatusBarMessage(vscode.l10n.t('Pilotfish: nothing to attach'), 3000);
    return;
  }
  await chat.tell({ type: 'attach', chips: [chip] });
  chat.post({ type: 'focus' });
}

async function attachPick(rooms: Rooms): Promise<void> {
  const selection = selectionChip(vscode.window.activeTextEditor);
  const document = vscode.window.activeTextEditor?.document;
  const items = [
    ...(selection
      ? [
          {
            label: `$(list-selection) ${vscode.l10n.t('Selection')}`,
            description: selection.label,
            do: 'selection' as const,
          },
        ]
      : []),
    ...(document
      ? [
          {
            label: `$(file) ${vscode.l10n.t('This file')}`,
            description: vscode.workspace.asRelativePath(document.uri),
            do: 'document' as const,
          },
        ]
      : []),
    ...(document && vscode.languages.getDiagnostics(document.uri).length > 0
      ? [{ label: `$(warning) ${vscode.l10n.t('Problems of this file')}`, do: 'problems' as const }]
      : []),
    { label: `$(folder-opened) ${vscode.l10n.t('Files or images…')}`, do: 'files' as const },
  ];
  const picked = await vscode.window.showQuickPick(items, { title: vscode.l10n.t('Attach') });
  if (picked?.do === 'selection') await attach(rooms, selection);
  else if (picked?.do === 'document' && document) await attach(rooms, documentChip(document));
  else if (picked?.do === 'problems' && document)
    await rooms.chat.tell({
      type: 'attach',
      chips: problemChips(document.uri, vscode.languages.getDiagnostics(document.uri)),
    });
  else if (picked?.do === 'files') await attachFiles(rooms);
}

const IMAGES: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
};

async function attachFiles({ chat }: Rooms): Promise<void> {
  const uris = await vscode.window.showOpenDialog({ canSelectMany: true, openLabel: vscode.l10n.t('Attach') });
  const chips: Chip[] = [];
  for (const uri of uris ?? []) {
    const mimeType = IMAGES[uri.path.split('.').at(-1)?.toLowerCase() ?? ''];
    if (mimeType === undefined) chips.push(await fileChip(uri));
    else
      chips.push({
        ...(await fileChip(uri)),
        icon: 'image',
        block: {
          type: 'image',
          mimeType,
          data: Buffer.from(await vscode.workspace.fs.readFile(uri)).toString('base64'),
        },
      });
  }
  await chat.tell({ type: 'attach', chips });
}

async function fileOrDocument(uri: vscode.Uri | undefined): Promise<Chip | undefined> {
  if (uri) return fileChip(uri);
  const document = vscode.window.activeTextEditor?.document;
  return document && documentChip(document);
}

async function explain({ chat }: Rooms): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    await chat.tell({ type: 'compose', text: vscode.l10n.t('Explain this project.'), chips: [], send: false });
    return;
  }
  const selection = selectionChip(editor);
  const text = selection ? vscode.l10n.t('Explain this code.') : vscode.l10n.t('Explain this file.');
  await chat.tell({ type: 'compose', text, chips: [selection ?? documentChip(editor.document)], send: true });
}

async function fixProblems({ chat }: Rooms): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  const problems = document
    ? vscode.languages.getDiagnostics(document.uri).filter((one) => one.severity <= vscode.DiagnosticSeverity.Warning)
    : [];
  if (!document || problems.length === 0) {
    void vscode.window.showInformationMessage(vscode.l10n.t('No problems in this file.'));
    return;
  }
  const text =
    problems.length === 1
      ? vscode.l10n.t('Fix this problem.')
      : vscode.l10n.t('Fix these {0} problems.', problems.length);
  await chat.tell({ type: 'compose', text, chips: problemChips(document.uri, problems), send: true });
}

async function allowAmended({ approvals, proposals }: Rooms, uri: vscode.Uri | undefined): Promise<void> {
  const approvalId = questionOf(uri ?? activeUri());
  const request = approvalId === undefined ? undefined : approvals.find(approvalId);
  if (!request) {
    void vscode.window.showInformationMessage(vscode.l10n.t('Already answered'));
    return;
  }
  const args = proposals.amended(request);
  await approvals.answer(request.approvalId, { optionId: 'allow_once', ...(args && { args }) });
}

async function insert(text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ content: text }));
    return;
  }
  await editor.edit((edit) => edit.replace(editor.selection, text));
}

/** Code from the answer against the selection, or the whole of the file in view. */
async function suggest(proposals: Proposals, text: string): Promise<void> {
  const editor = vscode.window.activeTextEditor ?? vscode.window.visibleTextEditors[0];
  if (!editor) {
    await proposals.showText(text, 'plaintext');
    return;
  }
  const { document, selection } = editor;
  const whole = document.getText();
  const after = selection.isEmpty
    ? text
    : whole.slice(0, document.offsetAt(selection.start)) + text + whole.slice(document.offsetAt(selection.end));
  await proposals.showDiff(
    whole,
    after,
    document.uri,
    vscode.l10n.t('{0}: suggestion', vscode.workspace.asRelativePath(document.uri)),
  );
}

async function openSession({ chat }: Rooms, sessionId: string): Promise<void> {
  await chat.open(sessionId);
  await chat.reveal(true);
}

async function search(rooms: Rooms): Promise<void> {
  const picker = vscode.window.createQuickPick<vscode.QuickPickItem & { session: Session }>();
  picker.title = vscode.l10n.t('Sessions');
  picker.placeholder = vscode.l10n.t('Search titles and texts');
  picker.matchOnDescription = true;
  const item = (session: Session) => ({
    label: session.title || vscode.l10n.t('Untitled'),
    description: agoWords(session.updatedAt),
    session,
    alwaysShow: true,
  });
  picker.items = rooms.sessions.all.map(item);
  let asked = 0;
  picker.onDidChangeValue(async (query) => {
    asked += 1;
    const mine = asked;
    picker.busy = true;
    const found = await rooms.sessions.search(query).catch(() => []);
    if (mine !== asked) return;
    picker.busy = false;
    picker.items = found.map(item);
  });
  picker.onDidAccept(() => {
    const session = picker.selectedItems[0]?.session;
    picker.hide();
    if (session) void openSession(rooms, session.id);
  });
  picker.onDidHide(() => picker.dispose());
  picker.show();
}

async function rename({ chat, connection }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const title = await vscode.window.showInputBox({
    title: vscode.l10n.t('Rename session'),
    value: session.title,
    validateInput: (text) => (text.trim() === '' ? vscode.l10n.t('A session needs a name.') : undefined),
  });
  if (title === undefined) return;
  chat.noted((await connection.request('pilotfish/session/rename', { sessionId: session.id, title })).session);
}

async function remove({ chat, connection, sessions }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const yes = vscode.l10n.t('Delete');
  const question = vscode.l10n.t('Delete "{0}"?', session.title || vscode.l10n.t('Untitled'));
  const detail = vscode.l10n.t('The conversation is deleted for good. Files it changed stay as they are.');
  if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, yes)) !== yes) return;
  await connection.request('pilotfish/session/delete', { sessionId: session.id });
  if (session.id === chat.session?.id) await chat.open(null);
  await sessions.load();
}

async function fork({ chat, connection }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const { session: copy } = await connection.request('pilotfish/session/fork', { sessionId: session.id });
  await chat.open(copy.id);
  await chat.reveal(true);
}

async function exported({ connection, proposals }: Rooms, session: Session | null): Promise<void> {
  if (!session) return;
  const picked = await vscode.window.showQuickPick(
    [
      { label: 'Markdown', format: 'markdown' as const },
      { label: 'JSON', format: 'json' as const },
    ],
    { title: vscode.l10n.t('Export as') },
  );
  if (!picked) return;
  const { text } = await connection.request('pilotfish/session/export', {
    sessionId: session.id,
    format: picked.format,
  });
  await proposals.showText(text, picked.format);
}

async function rules({ chat, connection }: Rooms): Promise<void> {
  const sessionId = chat.session ? { sessionId: chat.session.id } : {};
  const { rules: found } = await connection.request('pilotfish/rule/list', sessionId);
  const picker = vscode.window.createQuickPick<vscode.QuickPickItem & { id?: string }>();
  picker.title = vscode.l10n.t('Standing rules');
  picker.placeholder = vscode.l10n.t('Deny beats ask beats allow');
  const trash = { iconPath: new vscode.ThemeIcon('trash'), tooltip: vscode.l10n.t('Remove rule') };
  const icons = { allow: 'check', ask: 'question', deny: 'circle-slash' };
  const add = { label: `$(add) ${vscode.l10n.t('Add a rule…')}` };
  picker.items = [
    ...found.map((rule) => ({
      label: `$(${icons[rule.decision]}) ${rule.words}`,
      description: rule.scope,
      id: rule.id,
      buttons: [trash],
    })),
    add,
  ];
  picker.onDidTriggerItemButton(async ({ item }) => {
    if (item.id === undefined) return;
    await connection.request('pilotfish/rule/remove', { id: item.id, ...sessionId });
    picker.items = picker.items.filter((one) => one !== item);
  });
  picker.onDidAccept(() => {
    const [item] = picker.selectedItems;
    if (item !== undefined && item.id === undefined) {
      picker.hide();
      void addRule(connection, sessionId);
    }
  });
  picker.onDidHide(() => picker.dispose());
  picker.show();
}

async function addRule(connection: Connection, session: { sessionId?: string }): Promise<void> {
  const title = vscode.l10n.t('Add a rule');
  const decision = await vscode.window.showQuickPick(
    [
      { label: vscode.l10n.t('Allow'), it: 'allow' as const },
      { label: vscode.l10n.t('Ask'), it: 'ask' as const },
      { label: vscode.l10n.t('Deny'), it: 'deny' as const },
    ],
    { title },
  );
  if (!decision) return;
  const tool = await vscode.window.showInputBox({
    title,
    prompt: vscode.l10n.t('Which tool; * for every one'),
    value: 'bash',
  });
  if (tool === undefined) return;
  const pattern = await vscode.window.showInputBox({
    title,
    prompt: vscode.l10n.t('Which command or path, for example: npm test* or src/**'),
    value: '*',
  });
  if (pattern === undefined) return;
  const { rule } = await connection.request('pilotfish/rule/add', {
    decision: decision.it,
    tool: tool || '*',
    pattern: pattern || '*',
    scope: 'workspace',
    ...session,
  });
  void vscode.window.showInformationMessage(vscode.l10n.t('Rule saved: {0}', rule.words));
}

async function status({ connection }: Rooms): Promise<void> {
  const found = await connection.request('pilotfish/status', {});
  const mcp = found.mcpServers.map((one) => `${one.name}: ${one.state}${one.error ? `, ${one.error}` : ''}`);
  const lines = [
    vscode.l10n.t('Version {0}, {1}', found.version, found.state),
    vscode.l10n.t('Model: {0}', found.model ?? '–'),
    vscode.l10n.t('Sessions: {0}', found.store?.location ?? '–'),
    vscode.l10n.t('Sandbox: {0}', found.sandbox ?? '–'),
    vscode.l10n.t('Memory: {0} MB', Math.round(found.memoryBytes / 1e6)),
    ...mcp,
    ...found.problems,
  ];
  await vscode.window.showInformationMessage('Pilotfish', { modal: true, detail: lines.join('\n') });
}

async function menu(rooms: Rooms): Promise<void> {
  const { approvals, chat, server } = rooms;
  const entry = (icon: string, label: string, command: string) => ({ label: `$(${icon}) ${label}`, command });
  const items = [
    ...approvals.open.map((request) => ({
      label: `$(question) ${request.call.title}`,
      description: vscode.l10n.t('waiting'),
      approvalId: request.approvalId,
    })),
    ...(chat.busy ? [entry('debug-stop', vscode.l10n.t('Stop'), 'stop')] : []),
    entry('comment-discussion', vscode.l10n.t('Open chat'), 'openChat'),
    entry('add', vscode.l10n.t('New session'), 'newSession'),
    entry('search', vscode.l10n.t('Search sessions…'), 'sessions.search'),
    entry('symbol-event', vscode.l10n.t('Select model…'), 'selectModel'),
    entry('shield', vscode.l10n.t('Select mode…'), 'selectMode'),
    entry('law', vscode.l10n.t('Rules…'), 'rules'),
    entry('pulse', vscode.l10n.t('Status'), 'status'),
    entry('output', vscode.l10n.t('Show log'), 'showLog'),
    entry('debug-restart', vscode.l10n.t('Restart server'), 'restart'),
    entry('gear', vscode.l10n.t('Settings'), 'settings'),
  ];
  const reason = 'reason' in server.state ? server.state.reason : undefined;
  const picked = await vscode.window.showQuickPick(items, {
    title: 'Pilotfish',
    ...(reason && { placeHolder: reason }),
  });
  if (!picked) return;
  if ('approvalId' in picked) await showQuestion(rooms, picked.approvalId);
  else await vscode.commands.executeCommand(`pilotfish.${picked.command}`);
}

function activeUri(): vscode.Uri | undefined {
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputTextDiff ? input.modified : vscode.window.activeTextEditor?.document.uri;
}

/** Over remote, drops name files by `vscode-remote:`; here they are plain files. */
function localUri(uri: string): vscode.Uri {
  const parsed = vscode.Uri.parse(uri);
  return parsed.scheme === 'vscode-remote' ? vscode.Uri.file(parsed.path) : parsed;
}
