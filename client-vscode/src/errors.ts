/** What went wrong: in words, by number, and told to the user with what helps. */

import * as vscode from 'vscode';
import { ErrorCode } from './protocol.gen.ts';
import { NotConnected } from './server/connection.ts';

/** The words for the user, and the remedy that some errors of the server bring along. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const remedy = error && typeof error === 'object' && 'data' in error ? remedyIn(error.data) : undefined;
  return remedy === undefined ? message : `${message} ${remedy}`;
}

/** The code of a JSON-RPC error; undefined: it is none. */
export function codeOf(error: unknown): number | undefined {
  return error && typeof error === 'object' && 'code' in error && typeof error.code === 'number'
    ? error.code
    : undefined;
}

/** Into the log, and to the user with a button for what can be done about it. */
export function tellFailure(error: unknown, log: vscode.LogOutputChannel, doing?: string): void {
  const message = messageOf(error);
  log.error(doing === undefined ? message : `${doing}: ${message}`);
  const [button, command] = remedyFor(error);
  const told = vscode.window.showWarningMessage(`Pilotfish: ${message}`, ...(button === undefined ? [] : [button]));
  told.then(
    (pressed) => {
      if (pressed !== undefined && command !== undefined) return vscode.commands.executeCommand(command);
      return undefined;
    },
    () => {},
  );
}

/** Work nobody waits for: its failure is told, and not lost. */
export function watched(work: Promise<unknown>, log: vscode.LogOutputChannel, doing?: string): void {
  work.catch((error) => tellFailure(error, log, doing));
}

function remedyIn(data: unknown): string | undefined {
  return data && typeof data === 'object' && 'remedy' in data && typeof data.remedy === 'string'
    ? data.remedy
    : undefined;
}

function remedyFor(error: unknown): [button?: string, command?: string] {
  if (error instanceof NotConnected) return [vscode.l10n.t('Restart'), 'pilotfish.restart'];
  switch (codeOf(error)) {
    case ErrorCode.not_trusted:
      return [vscode.l10n.t('Trust…'), 'workbench.trust.manage'];
    case ErrorCode.storage:
    case ErrorCode.internal:
      return [vscode.l10n.t('Show Log'), 'pilotfish.showLog'];
    default:
      return [];
  }
}
