/** Everything the commands may reach. */

import type { LogOutputChannel } from 'vscode';
import type { Approvals } from './approvals/approvals.ts';
import type { Proposals } from './approvals/proposals.ts';
import type { Chat } from './chat/chat.ts';
import type { View } from './chat/chatView.ts';
import type { Drafts } from './chat/drafts.ts';
import type { Models } from './models/models.ts';
import type { Connection } from './server/connection.ts';
import type { Server } from './server/server.ts';
import type { Sessions } from './sessions/sessionTree.ts';

export interface Rooms {
  connection: Connection;
  server: Server;
  view: View;
  chat: Chat;
  approvals: Approvals;
  proposals: Proposals;
  drafts: Drafts;
  sessions: Sessions;
  models: Models;
  log: LogOutputChannel;
}
