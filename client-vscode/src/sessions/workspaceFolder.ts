import * as vscode from 'vscode';

/** The URI of the folder whose sessions are listed. */
export function workspaceFolder(): string | undefined {
  return vscode.workspace.workspaceFolders?.[0]?.uri.toString();
}
