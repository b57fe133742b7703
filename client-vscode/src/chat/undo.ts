/** Files of turns, put back and forward. */

import type { ToView } from '../../webview/messages.ts';
import { messageOf } from '../errors.ts';
import type { Connection } from '../server/connection.ts';

/**
 * One turn's files; without an id those of the last turn that changed some.
 * A conflict is shown before anything is changed; with `rest` what has none is done all the same.
 * What the view is told; undefined: nobody knows which turn it was.
 */
export async function undoTurn(
  connection: Connection,
  sessionId: string,
  turnId: string | undefined,
  direction: 'undo' | 'redo',
  rest: boolean,
): Promise<ToView | undefined> {
  const method = direction === 'undo' ? 'pilotfish/session/undo' : 'pilotfish/session/redo';
  const params = { sessionId, ...(turnId !== undefined && { turnId }) };
  try {
    const tried = await connection.request(method, { ...params, dryRun: true });
    const blocked = tried.refused.length > 0 && !rest;
    const result = blocked ? { ...tried, changes: [] } : await connection.request(method, params);
    const id = turnId ?? result.turnId ?? tried.turnId;
    return id === undefined ? undefined : { type: 'undone', turnId: id, direction, result };
  } catch (error) {
    if (turnId === undefined) throw error;
    return { type: 'undoFailed', turnId, message: messageOf(error) };
  }
}

/** The files of these turns as they were before, the newest turn first. A turn that changed none is passed over. */
export async function undoTurns(
  connection: Connection,
  sessionId: string,
  turnIds: readonly string[],
  said: (words: string) => void,
): Promise<void> {
  for (const turnId of turnIds.toReversed()) {
    await connection
      .request('pilotfish/session/undo', { sessionId, turnId })
      .catch((error) => said(`undo ${turnId}: ${messageOf(error)}`));
  }
}
