/** Tasks in the background: starts them, shows their state, and takes over their changes. */

import * as vscode from 'vscode';
import type { Background, Session } from '../protocol.gen.ts';
import type { Services } from '../services.ts';
import { askText, pick, showDialog, showInfo, showWarning } from '../widgets.ts';
import { workspaceFolder } from './workspaceFolder.ts';

export async function runInBackground(services: Services): Promise<void> {
  const text = await askText({
    title: vscode.l10n.t('Run in the background'),
    value: '',
    validate: (value) => (value.trim() === '' ? vscode.l10n.t('Describe the task.') : undefined),
  });
  if (text === undefined) return;
  const folder = workspaceFolder();
  const { notes } = await services.connection.request('pilotfish/background/start', {
    prompt: [{ type: 'text', text }],
    ...(folder && { workspaceFolder: folder }),
  });
  services.sessions.reloadSoon();
  const started = vscode.l10n.t('The task runs in the background. You find it in the list of sessions.');
  await (notes.length > 0 ? showWarning([started, ...notes].join(' ')) : showInfo(started));
}

type Choice = 'takeOver' | 'branch' | 'discard' | 'resume' | 'stop';

/** Offers what can be done with the task of a session in its state. */
export async function manageBackground(services: Services, session: Session | null): Promise<void> {
  if (!session?.background) return;
  const { connection } = services;
  const choices = choicesOf(session.background).map((choice) => ({ label: labelOf(choice), choice }));
  const picked = await pick(choices, { title: stateOf(session.background) });
  const sessionId = session.id;
  switch (picked?.choice) {
    case 'takeOver': {
      const { refused } = await connection.request('pilotfish/background/takeOver', { sessionId });
      if (refused.length > 0) {
        const names = refused.map(({ uri }) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri))).join(', ');
        await showWarning(vscode.l10n.t('Not changed, because of your own changes: {0}', names));
      }
      await services.chat.open(sessionId);
      break;
    }
    case 'branch': {
      const { name } = await connection.request('pilotfish/background/branch', { sessionId });
      await showInfo(vscode.l10n.t('The changes are in the branch {0}.', name));
      break;
    }
    case 'discard': {
      const yes = vscode.l10n.t('Discard');
      const detail = vscode.l10n.t('The conversation stays.');
      if ((await showDialog('warning', vscode.l10n.t('Discard the changes?'), detail, yes)) !== yes) return;
      await connection.request('pilotfish/background/discard', { sessionId });
      break;
    }
    case 'resume':
      await connection.request('pilotfish/background/resume', { sessionId });
      break;
    case 'stop':
      await connection.request('pilotfish/session/cancel', { sessionId });
      break;
    default:
      return;
  }
  services.sessions.reloadSoon();
}

export function choicesOf({ state, hasChanges }: Background): readonly Choice[] {
  const changes: readonly Choice[] = hasChanges ? ['takeOver', 'branch', 'discard'] : [];
  switch (state) {
    case 'queued':
    case 'running':
      return ['stop'];
    case 'interrupted':
      return ['resume', 'discard'];
    case 'failed':
    case 'cancelled':
      return [...changes, 'resume'];
    default:
      return changes;
  }
}

/** The state of a task in the list of sessions. */
export function stateOf({ state, hasChanges }: Background): string {
  switch (state) {
    case 'queued':
      return vscode.l10n.t('background: queued');
    case 'running':
      return vscode.l10n.t('background: working');
    case 'interrupted':
      return vscode.l10n.t('background: interrupted');
    case 'failed':
      return vscode.l10n.t('background: failed');
    case 'cancelled':
      return vscode.l10n.t('background: stopped');
    case 'done':
      return hasChanges ? vscode.l10n.t('background: changes to review') : vscode.l10n.t('background: done');
    case 'applied':
      return vscode.l10n.t('background: taken over');
    case 'discarded':
      return vscode.l10n.t('background: discarded');
    default:
      return state satisfies never;
  }
}

function labelOf(choice: Choice): string {
  switch (choice) {
    case 'takeOver':
      return vscode.l10n.t('Take over the changes and review them');
    case 'branch':
      return vscode.l10n.t('Make a branch of the changes');
    case 'discard':
      return vscode.l10n.t('Discard the changes');
    case 'resume':
      return vscode.l10n.t('Continue the task');
    case 'stop':
      return vscode.l10n.t('Stop the task');
    default:
      return choice satisfies never;
  }
}
