/** The long-lived objects of the extension, as the commands and the view's message handlers receive them. */

import type { LogOutputChannel } from 'vscode';
import type { AgentQuestions } from './approvals/agentQuestions.ts';
import type { Approvals } from './approvals/approvals.ts';
import type { Proposals } from './approvals/proposals.ts';
import type { Chat } from './chat/chat.ts';
import type { ChatView } from './chat/chatView.ts';
import type { Drafts } from './chat/drafts.ts';
import type { Models } from './models/models.ts';
import type { Connection } from './server/connection.ts';
import type { Server } from './server/server.ts';
import type { SessionTree } from './sessions/sessionTree.ts';

export interface Services {
  connection: Connection;
  server: Server;
  view: ChatView;
  chat: Chat;
  approvals: Approvals;
  agentQuestions: AgentQuestions;
  proposals: Proposals;
  drafts: Drafts;
  sessions: SessionTree;
  models: Models;
  log: LogOutputChannel;
}
