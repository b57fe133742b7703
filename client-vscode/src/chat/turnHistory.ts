/** Works on earlier turns of a session: forks before a turn, finds the last prompt, undoes and redoes file changes. */

import type { ToView } from '../../webview/messages.ts';
import { messageOf } from '../errors.ts';
import type { Item, PromptItem, Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

const PAGE_SIZE = 500;

/** A copy of the session without the turn and everything after it. For the first turn, a new empty session. */
export async function forkBefore(connection: Connection, session: Session, turnId: string): Promise<Session> {
  const itemId = await itemBefore(connection, session.id, turnId);
  if (itemId !== undefined) {
    return (await connection.request('pilotfish/session/fork', { sessionId: session.id, itemId })).session;
  }
  const created = await connection.request('pilotfish/session/new', {
    model: session.model,
    mode: session.mode,
    ...(session.workspaceFolder !== null && { workspaceFolder: session.workspaceFolder }),
  });
  return created.session;
}

/** A copy of the session up to the end of the turn. */
export async function forkAfter(connection: Connection, sessionId: string, turnId: string): Promise<Session> {
  for await (const item of itemsNewestFirst(connection, sessionId)) {
    if (item.turnId === turnId)
      return (await connection.request('pilotfish/session/fork', { sessionId, itemId: item.id })).session;
  }
  throw new Error(`no turn ${turnId} in session ${sessionId}`);
}

/** The prompt that started the newest turn. */
export async function lastPrompt(connection: Connection, sessionId: string): Promise<PromptItem | undefined> {
  let newestTurn: string | undefined;
  let prompt: PromptItem | undefined;
  for await (const item of itemsNewestFirst(connection, sessionId)) {
    newestTurn ??= item.turnId;
    if (item.turnId !== newestTurn) break;
    if (item.kind === 'prompt') prompt = item;
  }
  return prompt;
}

/**
 * Undoes or redoes the file changes of a turn; without an id, of the last turn that changed files.
 *
 * If a file has a conflict, nothing changes and the conflicts are returned, unless `skipConflicts` is set.
 * Returns the message for the view, or undefined if the server did not say which turn it was.
 */
export async function undoTurn(
  connection: Connection,
  sessionId: string,
  turnId: string | undefined,
  direction: 'undo' | 'redo',
  skipConflicts: boolean,
): Promise<ToView | undefined> {
  const method = direction === 'undo' ? 'pilotfish/session/undo' : 'pilotfish/session/redo';
  const params = { sessionId, ...(turnId !== undefined && { turnId }) };
  try {
    const dryRun = await connection.request(method, { ...params, dryRun: true });
    const blocked = dryRun.refused.length > 0 && !skipConflicts;
    const result = blocked ? { ...dryRun, changes: [] } : await connection.request(method, params);
    const id = turnId ?? result.turnId ?? dryRun.turnId;
    return id === undefined ? undefined : { type: 'undone', turnId: id, direction, result };
  } catch (error) {
    if (turnId === undefined) throw error;
    return { type: 'undoFailed', turnId, message: messageOf(error) };
  }
}

/** Undoes the file changes of several turns, newest first. Failures are logged, and the other turns are undone. */
export async function undoTurns(
  connection: Connection,
  sessionId: string,
  turnIds: readonly string[],
  log: (text: string) => void,
): Promise<void> {
  for (const turnId of turnIds.toReversed()) {
    await connection
      .request('pilotfish/session/undo', { sessionId, turnId })
      .catch((error) => log(`undo ${turnId}: ${messageOf(error)}`));
  }
}

/** Applies the file changes of several turns again, oldest first. Turns that changed no file are skipped. */
export async function redoTurns(
  connection: Connection,
  sessionId: string,
  turnIds: readonly string[],
  log: (text: string) => void,
): Promise<void> {
  for (const turnId of turnIds) {
    await connection
      .request('pilotfish/session/redo', { sessionId, turnId })
      .catch((error) => log(`redo ${turnId}: ${messageOf(error)}`));
  }
}

/** The id of the item before the first item of a turn, or undefined if the turn is the first. */
async function itemBefore(connection: Connection, sessionId: string, turnId: string): Promise<string | undefined> {
  let insideTurn = false;
  for await (const item of itemsNewestFirst(connection, sessionId)) {
    if (item.turnId === turnId) insideTurn = true;
    else if (insideTurn) return item.id;
  }
  if (!insideTurn) throw new Error(`no turn ${turnId} in session ${sessionId}`);
  return undefined;
}

/** Yields the items of a transcript from the newest to the oldest, and loads further pages on demand. */
async function* itemsNewestFirst(connection: Connection, sessionId: string): AsyncGenerator<Item> {
  let before: string | undefined;
  for (;;) {
    const page = await connection.request('pilotfish/session/load', {
      sessionId,
      limit: PAGE_SIZE,
      ...(before !== undefined && { before }),
    });
    yield* page.items.toReversed();
    before = page.items[0]?.id;
    if (!page.hasMore || before === undefined) return;
  }
}
