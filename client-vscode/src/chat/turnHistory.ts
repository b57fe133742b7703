/** Edit and resend: a copy of a session that ends right before one of its turns. */

import type { Item, PromptItem, Session } from '../protocol.gen.ts';
import type { Connection } from '../server/connection.ts';

const PAGE = 500;

/** A copy that knows nothing of the turn and what came after it; a new session when that is everything. */
export async function forkBefore(connection: Connection, session: Session, turnId: string): Promise<Session> {
  const itemId = await itemBefore(connection, session.id, turnId);
  if (itemId !== undefined) {
    return (await connection.request('pilotfish/session/fork', { sessionId: session.id, itemId })).session;
  }
  const fresh = await connection.request('pilotfish/session/new', {
    model: session.model,
    mode: session.mode,
    ...(session.workspaceFolder !== null && { workspaceFolder: session.workspaceFolder }),
  });
  return fresh.session;
}

/** The prompt of the newest turn, however far above the end it stands. */
export async function lastPrompt(connection: Connection, sessionId: string): Promise<PromptItem | undefined> {
  let newest: string | undefined;
  let first: PromptItem | undefined;
  for await (const item of backwards(connection, sessionId)) {
    newest ??= item.turnId;
    if (item.turnId !== newest) break;
    if (item.kind === 'prompt') first = item;
  }
  return first;
}

/** The item right before a turn's first, wherever the borders of the pages lie; undefined: nothing is before it. */
async function itemBefore(connection: Connection, sessionId: string, turnId: string): Promise<string | undefined> {
  let inside = false;
  for await (const item of backwards(connection, sessionId)) {
    if (item.turnId === turnId) inside = true;
    else if (inside) return item.id;
  }
  if (!inside) throw new Error(`no turn ${turnId} in session ${sessionId}`);
  return undefined;
}

/** Every item of a transcript, the newest first, page by page as far as someone looks. */
async function* backwards(connection: Connection, sessionId: string): AsyncGenerator<Item> {
  let before: string | undefined;
  for (;;) {
    const page = await connection.request('pilotfish/session/load', {
      sessionId,
      limit: PAGE,
      ...(before !== undefined && { before }),
    });
    yield* page.items.toReversed();
    before = page.items[0]?.id;
    if (!page.hasMore || before === undefined) return;
  }
}
