/** Shows the changes of a call or a turn in diff editors. Reconstructs the old text from the current text and the diffs. */

import { applyPatch, parsePatch, reversePatch } from 'diff';
import * as vscode from 'vscode';
import type { ReviewFile } from '../../webview/messages.ts';
import type { Proposals } from '../approvals/proposals.ts';
import { showInfo } from '../widgets.ts';

/** Reverts the diffs, given oldest first. Returns undefined if the text has changed since then. */
export function textBefore(now: string, diffs: readonly string[]): string | undefined {
  let text = now;
  for (const diff of diffs.toReversed()) {
    for (const patch of parsePatch(diff)) {
      const undone = applyPatch(text, reversePatch(patch), { fuzzFactor: 2, autoConvertLineEndings: true });
      if (undone === false) return undefined;
      text = undone;
    }
  }
  return text;
}

export async function showCallDiff(proposals: Proposals, uri: string, diff: string): Promise<void> {
  const target = vscode.Uri.parse(uri);
  const before = textBefore(await currentText(target), [diff]);
  if (before === undefined) {
    await proposals.showText(diff, 'diff');
    return;
  }
  await proposals.showDiff(
    before,
    target,
    target,
    vscode.l10n.t('{0}: changed', vscode.workspace.asRelativePath(target)),
  );
}

export async function showTurnDiff(proposals: Proposals, title: string, files: readonly ReviewFile[]): Promise<void> {
  const shown: { uri: vscode.Uri; before: string }[] = [];
  for (const file of files) {
    const uri = vscode.Uri.parse(file.uri);
    const now = await currentText(uri);
    const before = file.change === 'created' ? '' : textBefore(now, file.diffs);
    if (before !== undefined) shown.push({ uri, before });
  }
  const [only] = shown;
  if (shown.length === 0) {
    void showInfo(vscode.l10n.t('These files have changed since this turn, so the diff cannot be shown.'));
  } else if (shown.length === 1 && only) {
    await proposals.showDiff(
      only.before,
      only.uri,
      only.uri,
      vscode.l10n.t('{0}: changed', vscode.workspace.asRelativePath(only.uri)),
    );
  } else {
    await proposals.showMany(title, shown);
  }
}

async function currentText(uri: vscode.Uri): Promise<string> {
  try {
    return (await vscode.workspace.openTextDocument(uri)).getText();
  } catch {
    return '';
  }
}
