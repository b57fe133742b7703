/** Turns errors into messages for the user, and reports failures with a button that helps. */

import * as vscode from 'vscode';
import { ErrorCode } from './protocol.gen.ts';
import { NotConnected } from './server/connection.ts';
import { showWarning } from './widgets.ts';

/** The error's message, followed by the remedy that some server errors carry. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const remedy = error && typeof error === 'object' && 'data' in error ? remedyIn(error.data) : undefined;
  return remedy === undefined ? message : `${message} ${remedy}`;
}

/** The code of a JSON-RPC error, or undefined for any other error. */
export function codeOf(error: unknown): number | undefined {
  return error && typeof error === 'object' && 'code' in error && typeof error.code === 'number'
    ? error.code
    : undefined;
}

/** Logs the failure and shows a warning, with a button if there is a command that helps. What the user cancelled is none. */
export function reportFailure(error: unknown, log: vscode.LogOutputChannel, action?: string): void {
  if (codeOf(error) === ErrorCode.cancelled) return;
  const message = messageOf(error);
  log.error(action === undefined ? message : `${action}: ${message}`);
  const [button, command] = remedyFor(error);
  const warning = showWarning(`Pilotfish: ${message}`, ...(button === undefined ? [] : [button]));
  warning.then(
    (pressed) => {
      if (pressed !== undefined && command !== undefined) return vscode.commands.executeCommand(command);
      return undefined;
    },
    () => {},
  );
}

/** Reports the failure of work that no caller awaits. */
export function reportRejection(work: Promise<unknown>, log: vscode.LogOutputChannel, action?: string): void {
  work.catch((error) => reportFailure(error, log, action));
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
