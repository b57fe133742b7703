/** Opens links of an answer: files of the workspace, web pages and mail addresses. Other links are ignored. */

import * as vscode from 'vscode';
import { flashStatus, showDialog } from '../widgets.ts';

/** Parses `src/auth.ts:42`, `src/auth.ts#L42` or a `file:` URI. Lines are counted from 0. */
export function parseFileLink(href: string): { path: string; line: number | undefined } {
  const match = /^(.*?)(?:[:#]L?(\d+)(?:[-:]L?\d+)?)?$/.exec(href);
  const line = match?.[2] === undefined ? undefined : Math.max(0, Number(match[2]) - 1);
  return { path: match?.[1] ?? href, line };
}

export async function openLink(href: string): Promise<void> {
  if (/^(https?|mailto):/i.test(href)) {
    await openPage(href);
    return;
  }
  if (/^[a-z][\w+.-]+:\/\//i.test(href) && !/^(file|vscode-remote):/i.test(href)) return;
  const { path, line } = parseFileLink(href);
  const uri = await findFile(path);
  if (uri) await openFile(uri, line);
  else flashStatus(vscode.l10n.t('Pilotfish: file not found: {0}', path), 5000);
}

/** Asks before opening, because the model wrote the address. */
async function openPage(href: string): Promise<void> {
  const uri = vscode.Uri.parse(href, true);
  const open = vscode.l10n.t('Open');
  const copy = vscode.l10n.t('Copy');
  const question = vscode.l10n.t('Open this link from the conversation?');
  const pressed = await showDialog('info', question, href, open, copy);
  if (pressed === open) await vscode.env.openExternal(uri);
  else if (pressed === copy) await vscode.env.clipboard.writeText(href);
}

export async function openFile(uri: vscode.Uri, line: number | undefined): Promise<void> {
  const selection = line === undefined ? {} : { selection: new vscode.Range(line, 0, line, 0) };
  await vscode.window.showTextDocument(uri, { preview: true, ...selection });
}

async function findFile(path: string): Promise<vscode.Uri | undefined> {
  const absolute = /^(file|vscode-remote):/i.test(path)
    ? vscode.Uri.parse(path)
    : path.startsWith('/') || /^[a-z]:[\\/]/i.test(path)
      ? vscode.Uri.file(path)
      : undefined;
  const candidates = absolute
    ? [absolute]
    : (vscode.workspace.workspaceFolders ?? []).map((folder) => vscode.Uri.joinPath(folder.uri, path));
  for (const uri of candidates) {
    if (await exists(uri)) return uri;
  }
  if (absolute) return undefined;
  const [found] = await vscode.workspace.findFiles(`**/${path.replace(/^\.\//, '')}`, undefined, 1);
  return found;
}

async function exists(uri: vscode.Uri): Promise<boolean> {
  try {
    return (await vscode.workspace.fs.stat(uri)).type !== vscode.FileType.Directory;
  } catch {
    return false;
  }
}
