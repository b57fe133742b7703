/** Messages that put the view into the states that are tested and shown in screenshots. */

import type {
  ApprovalRequest,
  CallStatus,
  Category,
  Item,
  Session,
  ToolCall,
  Update,
  UpdateParams,
} from '../../src/protocol.gen.ts';
import { EMPTY_DRAFT, type ToView } from '../../webview/messages.ts';

const FOLDER = 'file:///home/ada/shop';
const LONG_PATH = `${FOLDER}/src/a/very/long/path/that/has/to/give/way/somewhere/in/the/middle/token.test.ts`;
export const USAGE = {
  inputTokens: 15_200,
  outputTokens: 2_900,
  cachedTokens: 9_000,
  reasoningTokens: 0,
  unpricedRequests: 0,
  requests: 4,
  toolCalls: 9,
  cost: 0.21,
};
export const AT = Date.parse('2026-11-16T10:00:00Z');

export const SESSION: Session = {
  id: 's1',
  title: 'Fix the login test',
  workspaceFolder: FOLDER,
  model: 'anthropic:claude-x',
  mode: 'ask',
  createdAt: '2026-11-16T09:55:00Z',
  updatedAt: '2026-11-16T10:00:00Z',
  turns: 1,
  busy: true,
  usage: USAGE,
};

export function call(
  id: string,
  title: string,
  category: Category,
  status: CallStatus,
  more: Partial<ToolCall> = {},
): ToolCall {
  return { id, name: 'run_command', title, category, status, args: {}, locations: [], recovered: false, ...more };
}

/** Updates of one session with consecutive sequence numbers. */
export function updates(list: readonly Update[], from = 1, turnId = 't1'): ToView {
  const numbered = list.map((update, index): UpdateParams => ({ sessionId: 's1', turnId, seq: from + index, update }));
  return { type: 'updates', updates: numbered, at: AT };
}

export function loaded(
  items: readonly Item[] = [],
  more: Partial<Extract<ToView, { type: 'loaded' }>['page']> = {},
): ToView {
  const page = {
    session: { ...SESSION, busy: false },
    items: [...items],
    hasMore: false,
    lastSeq: 0,
    pendingApprovals: [],
    ...more,
  };
  return { type: 'loaded', page, queue: [], draft: EMPTY_DRAFT, at: AT };
}

/** The context usage that the host sends for the session. */
const CONTEXT: ToView = { type: 'context', context: { used: 62_000, window: 200_000 } };

export const START: readonly ToView[] = [
  { type: 'hello', words: {}, mac: false, trusted: true },
  { type: 'server', server: { status: 'ready', version: '0.2.0' } },
  { type: 'model', model: { current: 'anthropic:claude-x', label: 'claude-x', available: true, demo: false } },
  {
    type: 'commands',
    commands: [
      { name: 'compact', description: 'Summarise the conversation', source: 'built-in' },
      { name: 'review', description: 'Review uncommitted changes', argumentHint: '[branch]', source: 'workspace' },
      { name: 'model', description: 'Switch the model', source: 'built-in' },
    ],
  },
];

const DIFF = `--- a/src/auth.ts
+++ b/src/auth.ts
@@ -40,7 +40,9 @@
 export function isLoggedIn(token?: Token): boolean {
-  if (token) {
+  if (token?.valid && !isExpired(token)) {
+    touch(token);
     return true;
   }
   return false;
`;

const BEFORE = `import { Token } from './token';

export function isLoggedIn(token?: Token): boolean {
  if (token) {
    return true;
  }
  return false;
}

export function logout(session: Session): void {
  session.token = undefined;
}
`;
const AFTER = BEFORE.replace('if (token) {', 'if (token?.valid && !isExpired(token)) {\n    touch(token);').replace(
  "import { Token } from './token';",
  "import { isExpired, Token, touch } from './token';",
);

const PROMPT: Extract<Update, { kind: 'turn_started' }> = {
  kind: 'turn_started',
  promptId: 'p1',
  prompt: [
    { type: 'text', text: 'Fix the login test. It fails since the token change, see the selection.' },
    {
      type: 'resource',
      uri: `${FOLDER}/src/auth.ts`,
      range: { start: { line: 39, character: 0 }, end: { line: 46, character: 0 } },
    },
  ],
};

const ANSWER = `The test fails because \`isLoggedIn\` accepts **any** token, even an expired one. I changed \`src/auth.ts:42\` to check it:

\`\`\`ts
export function isLoggedIn(token?: Token): boolean {
  // an expired token is no token
  return token?.valid === true && !isExpired(token);
}
\`\`\`

- \`isExpired\` is imported from \`./token\`
- the old call sites are unchanged

| file | tests | result |
| --- | --- | --- |
| \`auth.test.ts\` | 14 | passed |
| \`token.test.ts\` | 6 | passed |
`;

const READS: readonly Update[] = ['auth.ts', 'token.ts', 'auth.test.ts', 'session.ts', 'index.ts', 'user.ts'].map(
  (name, index) => ({
    kind: 'tool_call',
    call: call(`r${index}`, `Read src/${name}`, 'read_only', 'completed', {
      name: 'read_file',
      locations: [{ uri: `${FOLDER}/src/${name}` }],
      durationMs: 20,
    }),
  }),
);

export const EDIT_CALL = call('e1', 'Edit src/auth.ts', 'write', 'awaiting_approval', {
  name: 'edit_file',
  args: { path: 'src/auth.ts' },
});

export const EDIT_APPROVAL: ApprovalRequest = {
  approvalId: 'a1',
  sessionId: 's1',
  turnId: 't1',
  call: EDIT_CALL,
  reason: 'Edits are asked for in this mode.',
  digest: 'd1',
  preview: { kind: 'diff', files: [{ uri: `${FOLDER}/src/auth.ts`, version: '3', before: BEFORE, after: AFTER }] },
  options: [
    { id: 'allow_once', label: 'Allow', matches: [], excludes: [] },
    {
      id: 'allow_session',
      label: 'Allow for this session',
      rule: 'Edits in src/**, this session',
      tool: 'edit_file',
      pattern: './src/**',
      matches: [],
      excludes: [],
    },
    {
      id: 'allow_always',
      label: 'Always allow',
      rule: 'Edits in src/**, this workspace',
      tool: 'edit_file',
      pattern: './src/**',
      matches: [],
      excludes: [],
    },
    { id: 'reject', label: 'Deny', matches: [], excludes: [] },
  ],
  amendable: true,
};

export const COMMAND_APPROVAL: ApprovalRequest = {
  ...EDIT_APPROVAL,
  approvalId: 'a2',
  call: call('c9', 'Run npm test && npm run lint', 'execute', 'awaiting_approval', {
    args: { command: 'npm test && npm run lint' },
  }),
  reason: 'Commands are asked for in this mode.',
  preview: {
    kind: 'command',
    command: 'npm test && npm run lint',
    cwd: '/home/ada/shop',
    parsed: ['npm test', 'npm run lint'],
  },
  options: [
    { id: 'allow_once', label: 'Allow', matches: [], excludes: [] },
    {
      id: 'allow_always',
      label: 'Always allow',
      rule: 'Allow running exactly `npm test && npm run lint`, in this workspace',
      tool: 'bash',
      pattern: 'npm test && npm run lint',
      matches: ['npm test && npm run lint'],
      excludes: ['npm test && npm run lint --verbose', 'npm test && rm x'],
    },
    { id: 'reject', label: 'Deny', matches: [], excludes: [] },
    { id: 'reject_always', label: 'Never', rule: 'Never npm test', matches: [], excludes: [] },
  ],
};

/** A command that was tried out: the question shows what it changed. */
export const TRIED_APPROVAL: ApprovalRequest = {
  ...COMMAND_APPROVAL,
  approvalId: 'a3',
  call: call('c10', 'Run ./generate.sh', 'execute', 'awaiting_approval', { args: { command: './generate.sh' } }),
  preview: {
    kind: 'command',
    command: './generate.sh',
    cwd: '/home/ada/shop',
    parsed: ['./generate.sh'],
    effects: {
      files: [
        { uri: 'file:///home/ada/shop/src/api.ts', before: 'old line\n', after: 'new line\n' },
        { uri: 'file:///home/ada/shop/src/gone.ts', before: 'gone\n', after: null },
      ],
      output: '2 files written\n',
      exitCode: 0,
      note: 'it did not see the unsaved text of src/cart.ts',
    },
  },
  options: [
    { id: 'allow_once', label: 'Allow once', matches: [], excludes: [] },
    { id: 'allow_real', label: 'Run it for real', matches: [], excludes: [] },
    { id: 'reject', label: 'Deny', matches: [], excludes: [] },
  ],
};

const WORK: readonly Update[] = [
  PROMPT,
  { kind: 'agent_thought_chunk', itemId: 'h1', text: 'The test checks expiry; the function does not.' },
  ...READS,
  {
    kind: 'tool_call',
    call: call('e0', 'Edit src/auth.ts', 'write', 'completed', { name: 'edit_file', diff: DIFF, durationMs: 40 }),
  },
  { kind: 'file_changed', uri: `${FOLDER}/src/auth.ts`, change: 'edited', added: 3, removed: 2, via: 'buffer' },
];

const STATUSES: readonly Update[] = [
  ...WORK,
  {
    kind: 'tool_call',
    call: call('c1', 'Run npm test', 'execute', 'completed', {
      durationMs: 4200,
      result: { text: '14 passed', truncated: false, bytes: 9 },
    }),
  },
  {
    kind: 'tool_call',
    call: call('c2', 'Run npm run lint', 'execute', 'failed', {
      durationMs: 2100,
      error: 'exit 1',
      result: {
        text: 'src/auth.ts\n  42:7  error  Unexpected any  @typescript-eslint/no-explicit-any\n\n1 problem',
        truncated: false,
        bytes: 88,
      },
    }),
  },
  {
    kind: 'tool_call',
    call: call('c3', 'Run rm -r dist', 'execute', 'denied', {
      approval: { decision: 'deny', by: 'user', reason: '', feedback: 'Use npm run clean', amended: false },
    }),
  },
  { kind: 'tool_call', call: call('c4', 'Run npm run e2e', 'execute', 'cancelled', { durationMs: 61_000 }) },
  {
    kind: 'tool_call',
    call: call('c5', 'Run npm run build', 'execute', 'in_progress', {
      startedAt: new Date(AT + 2_000).toISOString(),
    }),
  },
  {
    kind: 'tool_progress',
    callId: 'c5',
    text: '> shop@1.0.0 build\n> vite build\n\ntransforming (412) node_modules/preact/dist/preact.module.js\nrendering chunks…\n',
  },
  {
    kind: 'plan',
    entries: [
      { content: 'Reproduce the failure', status: 'completed', priority: 'high' },
      { content: 'Add the expiry check', status: 'completed', priority: 'high' },
      { content: 'Run the tests', status: 'in_progress', priority: 'medium' },
      { content: 'Update the changelog', status: 'pending', priority: 'low' },
    ],
  },
  { kind: 'usage', usage: USAGE, contextUsed: 62_000, contextWindow: 200_000 },
];

const DONE: readonly Update[] = [
  ...WORK,
  {
    kind: 'tool_call',
    call: call('c1', 'Run npm test', 'execute', 'completed', {
      durationMs: 4200,
      approval: { decision: 'allow', by: 'user', reason: '', amended: false },
    }),
  },
  {
    kind: 'file_changed',
    uri: LONG_PATH,
    change: 'created',
    added: 37,
    removed: 0,
    via: 'buffer',
  },
  { kind: 'agent_message_chunk', itemId: 'm1', text: ANSWER },
  { kind: 'usage', usage: USAGE, contextUsed: 62_000, contextWindow: 200_000 },
  { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE },
];

const FAILED: readonly Update[] = [
  PROMPT,
  { kind: 'notice', level: 'info', message: 'AGENTS.md was read.' },
  { kind: 'notice', level: 'warning', message: 'auth.ts changed since it was read.', remedy: 'It is read again.' },
  {
    kind: 'turn_ended',
    stopReason: 'failed',
    usage: USAGE,
    error: {
      message: 'Rate limited.',
      remedy: 'Wait a little, or use another model.',
      retryable: true,
      kind: 'rate_limit',
      retryAfter: 18,
    },
  },
];

/** Long words without spaces in every place that shows foreign text. */
const WORD = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'.repeat(4);
const LONG_URI = `${FOLDER}/${WORD}/${WORD}.ts`;
const LONG_CALL = call('w9', `Run ${WORD}`, 'execute', 'awaiting_approval');
const HOSTILE: readonly ToView[] = [
  ...START,
  { type: 'model', model: { current: `ollama:${WORD}`, label: WORD, available: true, demo: false, seesImages: false } },
  loaded([], { session: { ...SESSION, model: `ollama:${WORD}` } }),
  updates([
    {
      kind: 'turn_started',
      promptId: 'p1',
      prompt: [
        { type: 'text', text: WORD },
        { type: 'resource', uri: LONG_URI },
      ],
    },
    { kind: 'agent_thought_chunk', itemId: 'h1', text: WORD },
    {
      kind: 'tool_call',
      call: call('w1', `Read ${WORD}`, 'read_only', 'completed', { locations: [{ uri: LONG_URI }] }),
    },
    { kind: 'tool_call', call: call('w2', `Run ${WORD}`, 'execute', 'failed', { error: WORD }) },
    { kind: 'file_changed', uri: LONG_URI, change: 'created', added: 37, removed: 0, via: 'buffer' },
    { kind: 'agent_message_chunk', itemId: 'm1', text: `# ${WORD}\n\n${WORD}\n\n- \`${WORD}\`\n\n> ${WORD}\n\n` },
    {
      kind: 'agent_message_chunk',
      itemId: 'm1',
      text: `| a | b |\n| - | - |\n| ${WORD} | x |\n\n<https://x.y/${WORD}>`,
    },
    { kind: 'notice', level: 'warning', message: WORD, remedy: WORD, cause: 'storage' },
    { kind: 'plan', entries: [{ content: WORD, status: 'in_progress', priority: 'high' }] },
    { kind: 'tool_call', call: LONG_CALL },
  ]),
  {
    type: 'approval',
    request: {
      ...COMMAND_APPROVAL,
      call: LONG_CALL,
      reason: WORD,
      preview: { kind: 'command', command: `echo ${WORD}`, cwd: `/${WORD}`, parsed: [WORD, WORD] },
    },
  },
  { type: 'ask', ask: { id: 'k1', sessionId: 's1', question: WORD, options: [WORD, 'no'] } },
  {
    type: 'queue',
    sessionId: 's1',
    prompts: [{ promptId: 'p2', prompt: [{ type: 'text', text: WORD }], kind: 'queue' }],
  },
];

const RIGHT_TO_LEFT: readonly Update[] = [
  { kind: 'turn_started', promptId: 'p1', prompt: [{ type: 'text', text: 'أصلح اختبار تسجيل الدخول في src/auth.ts' }] },
  { kind: 'agent_thought_chunk', itemId: 'h1', text: 'يجب فحص صلاحية الرمز.' },
  ...READS,
  {
    kind: 'agent_message_chunk',
    itemId: 'm1',
    text: 'يفشل الاختبار لأن `isLoggedIn` تقبل **أي** رمز:\n\n1. الرمز المنتهي\n2. الرمز الملغى\n\n```ts\nreturn token?.valid;\n```\n\n> اقتباس قصير\n\nAnd a sentence in English.\n',
  },
  { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE },
];

/** Markdown of every kind that models write. */
export const RICH = `| setting | default | what it does |
| --- | ---: | --- |
| \`maxToolOutput\` | 20000 | characters of a tool's output that are sent to the model |
| \`verifyClaims\` | true | checks what an answer says<br>against the calls |

- [x] read the file
- [ ] change it

\`\`\`diff
--- a/src/auth.ts
+++ b/src/auth.ts
@@ -1,3 +1,3 @@
 export function isLoggedIn(token?: Token): boolean {
-  return token !== undefined;
+  return token?.valid === true && !isExpired(token);
 }
\`\`\`

<details>
<summary>Why the <b>token</b> expires</summary>

It lives for *one* hour[^1]. Press <kbd>F5</kbd>.

\`\`\`ts
const HOUR = 3600;
\`\`\`

</details>

The cost is $O(n \\log n)$, which is $5 less than $10 per $HOME/$USER.

$$
\\int_0^1 x^2 \\, dx = \\frac{1}{3}
$$

\`\`\`mermaid
graph TD
  A[Request] --> B{Valid token?}
  B -->|yes| C[(Session)]
  B -->|no| D["Sign in"]
\`\`\`

[^1]: See \`src/token.ts:12\`.
`;

export const SCENES: Record<string, readonly ToView[]> = {
  'first-run': [
    ...START,
    { type: 'model', model: { current: 'demo', label: 'demo', available: true, demo: true } },
    {
      type: 'recent',
      sessions: [
        { ...SESSION, updatedAt: new Date(AT - 7_200_000).toISOString() },
        {
          ...SESSION,
          id: 's2',
          title: 'Upgrade dependencies of the payment service to the newest',
          updatedAt: new Date(AT - 172_800_000).toISOString(),
        },
      ],
    },
  ],
  statuses: [
    ...START,
    loaded(),
    updates(STATUSES),
    CONTEXT,
    {
      type: 'queue',
      sessionId: 's1',
      prompts: [
        { promptId: 'q1', prompt: [{ type: 'text', text: 'Then update the changelog' }], kind: 'queue' },
        { promptId: 'q2', prompt: [{ type: 'text', text: 'Use vitest, not jest' }], kind: 'steer' },
      ],
    },
  ],
  streaming: [
    ...START,
    loaded(),
    updates([...WORK, { kind: 'agent_message_chunk', itemId: 'm1', text: ANSWER.slice(0, 330) }]),
  ],
  rich: [
    ...START,
    loaded(),
    updates([
      PROMPT,
      { kind: 'agent_message_chunk', itemId: 'm1', text: RICH },
      { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE },
    ]),
  ],
  approval: [
    ...START,
    loaded(),
    updates([PROMPT, ...READS, { kind: 'tool_call', call: EDIT_CALL }]),
    { type: 'approval', request: EDIT_APPROVAL },
  ],
  command: [
    ...START,
    loaded(),
    updates([
      PROMPT,
      ...READS,
      { kind: 'tool_call', call: COMMAND_APPROVAL.call },
      { kind: 'tool_call', call: EDIT_CALL },
    ]),
    { type: 'approval', request: COMMAND_APPROVAL },
    { type: 'approval', request: EDIT_APPROVAL },
  ],
  done: [...START, loaded(), updates(DONE), CONTEXT],
  files: [
    ...START,
    loaded(),
    updates(DONE),
    {
      type: 'pending',
      files: [
        { uri: `${FOLDER}/src/auth.ts`, path: 'src/auth.ts', change: 'edited', added: 128, removed: 46 },
        { uri: `${FOLDER}/NOTES.md`, path: 'NOTES.md', change: 'created', added: 12, removed: 0 },
        { uri: `${FOLDER}/old.ts`, path: 'old.ts', change: 'deleted', added: 0, removed: 9 },
      ],
    },
  ],
  undone: [
    ...START,
    loaded(),
    updates(DONE),
    CONTEXT,
    {
      type: 'undone',
      turnId: 't1',
      direction: 'undo',
      result: {
        changes: [{ uri: `${FOLDER}/src/auth.ts`, change: 'edited', added: 2, removed: 3 }],
        refused: [{ uri: LONG_PATH, reason: 'has been changed since' }],
      },
    },
  ],
  failed: [...START, loaded(), updates(FAILED)],
  retrying: [
    ...START,
    loaded(),
    updates([
      ...WORK,
      {
        kind: 'notice',
        level: 'warning',
        message: 'The provider’s rate limit is reached. Retrying in 30 s.',
        remedy: 'Wait a little, or use another model.',
        retryAfter: 30,
        cause: 'rate_limit',
      },
    ]),
  ],
  restricted: [...START, { type: 'hello', words: {}, mac: false, trusted: false }],
  crashed: [
    ...START,
    loaded(),
    updates(WORK),
    { type: 'crashed', at: AT },
    loaded([
      { kind: 'prompt', id: 'i1', turnId: 't1', seq: 1, prompt: PROMPT.prompt },
      {
        kind: 'turn_end',
        id: 'i2',
        turnId: 't1',
        seq: 2,
        stopReason: 'failed',
        usage: USAGE,
        undone: false,
        error: {
          message: 'Pilotfish restarted; the last step may be incomplete.',
          remedy: 'Say “continue” to go on.',
          retryable: true,
          kind: 'restarted',
        },
      },
    ]),
  ],
  group: [
    ...START,
    loaded(),
    updates([
      PROMPT,
      { kind: 'tool_call', call: COMMAND_APPROVAL.call },
      { kind: 'agent_message_chunk', itemId: 'm0', text: ANSWER },
      { kind: 'tool_call', call: { ...COMMAND_APPROVAL.call, id: 'c10' } },
    ]),
    { type: 'approval', request: COMMAND_APPROVAL },
    {
      type: 'approval',
      request: { ...COMMAND_APPROVAL, approvalId: 'a3', call: { ...COMMAND_APPROVAL.call, id: 'c10' } },
    },
  ],
  hostile: HOSTILE,
  rtl: [...START, loaded(), updates(RIGHT_TO_LEFT)],
  /** two approvals of different kinds, which are not grouped, with more text between them than fits */
  waiting: [
    ...START,
    loaded(),
    updates([
      PROMPT,
      { kind: 'tool_call', call: COMMAND_APPROVAL.call },
      { kind: 'agent_message_chunk', itemId: 'm0', text: `${ANSWER}\n\n${ANSWER}` },
      { kind: 'tool_call', call: EDIT_CALL },
    ]),
    { type: 'approval', request: COMMAND_APPROVAL },
    { type: 'approval', request: EDIT_APPROVAL },
  ],
  stopped: [
    ...START,
    loaded(),
    updates([
      ...WORK,
      {
        kind: 'turn_ended',
        stopReason: 'cancelled',
        usage: USAGE,
        receipt: {
          tookMs: 40,
          cancelledCalls: ['c1'],
          killedProcesses: [{ pid: 1, command: 'npm test' }],
          changedFiles: ['a', 'b'],
        },
      },
    ]),
  ],
  ask: [
    ...START,
    loaded(),
    updates(WORK),
    {
      type: 'ask',
      ask: { id: 'k1', sessionId: 's1', question: 'Which test runner should I use?', options: ['vitest', 'jest'] },
    },
  ],
  preparing: [
    ...START,
    {
      type: 'task',
      task: { status: 'running', step: 'Downloading the weights… 42 % of 1.1 GB', percent: 42, since: AT },
    },
  ],
  notPrepared: [
    ...START,
    {
      type: 'task',
      task: {
        status: 'failed',
        reason: 'The server is not the one of the extension. Install the package beside the server, and try again.',
        command: "pip install 'pilotfish[local]'",
      },
    },
  ],
  missing: [
    ...START,
    {
      type: 'server',
      server: {
        status: 'missing',
        reason: 'No Pilotfish server found. It can be installed into its own Python environment.',
        canInstall: true,
      },
    },
  ],
};
