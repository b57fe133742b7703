/** Everything the commands may reach. */

import type { LogOutputChannel } from 'vscode';
import type { Approvals } from './approvals.ts';
import type { Chat } from './chat.ts';
import type { Connection } from './connection.ts';
import type { Drafts } from './drafts.ts';
import type { Models } from './models.ts';
import type { Proposals } from './proposals.ts';
import type { Server } from './server.ts';
import type { Sessions } from './sessions.ts';
import type { View } from './view.ts';

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
