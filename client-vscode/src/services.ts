/** The long-lived objects of the extension, as the commands and the view's message handlers receive them. */

import type { LogOutputChannel } from 'vscode';
import type { AgentQuestions } from './approvals/agentQuestions.ts';
import type { Approvals } from './approvals/approvals.ts';
import type { Proposals } from './approvals/proposals.ts';
import type { Waiting } from './approvals/waiting.ts';
import type { Chat } from './chat/chat.ts';
import type { ChatView } from './chat/chatView.ts';
import type { Drafts } from './chat/drafts.ts';
import type { LongTask } from './chat/longTask.ts';
import type { CodeBlocks } from './editor/codeBlocks.ts';
import type { EditorContextSource } from './editor/editorContext.ts';
import type { InlineEdits } from './editor/inlineEdit.ts';
import type { McpServers } from './mcp/mcpServers.ts';
import type { LanguageModels } from './models/languageModels.ts';
import type { Models } from './models/models.ts';
import type { Authorship } from './review/authorship.ts';
import type { Review } from './review/review.ts';
import type { Connection } from './server/connection.ts';
import type { Server } from './server/server.ts';
import type { FinishedTurns } from './sessions/finishedTurns.ts';
import type { SessionTree } from './sessions/sessionTree.ts';

export interface Services {
  connection: Connection;
  editorContext: EditorContextSource;
  server: Server;
  view: ChatView;
  chat: Chat;
  approvals: Approvals;
  agentQuestions: AgentQuestions;
  waiting: Waiting;
  proposals: Proposals;
  drafts: Drafts;
  sessions: SessionTree;
  finished: FinishedTurns;
  review: Review;
  authorship: Authorship;
  inlineEdits: InlineEdits;
  codeBlocks: CodeBlocks;
  models: Models;
  mcpServers: McpServers;
  task: LongTask;
  languageModels: LanguageModels;
  log: LogOutputChannel;
}
