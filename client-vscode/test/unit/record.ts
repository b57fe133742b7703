/** Records the messages of the real server for a few turns: `npm run record` writes them to test/unit/recorded. */

import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import rpc from 'vscode-jsonrpc/node';
import type { ApprovalRequest, SessionLoadResult, SessionResult, UpdateParams } from '../../src/protocol.gen.ts';
import { type Reply, startProvider } from '../e2e/support/provider.ts';
import { ROOT } from '../e2e/support/vscode.ts';
import { AUTH } from '../e2e/support/world.ts';

interface Recording {
  prompts: string[];
  replies: Reply[];
  /** the user's answers to approvals, in order */
  answers: { optionId: string; feedback?: string }[];
}

const RECORDINGS: Record<string, Recording> = {
  work: {
    prompts: ['Fix the login check', 'Thank you'],
    replies: [
      {
        thoughts: ['Read it ', 'first.'],
        calls: [
          { name: 'read_file', args: { path: 'src/auth.py' } },
          { name: 'glob', args: { pattern: '**/*.py' } },
        ],
        usage: { input: 900, output: 40 },
      },
      {
        calls: [
          {
            name: 'update_plan',
            args: {
              steps: [
                { content: 'Fix the check', status: 'in_progress' },
                { content: 'Run it', status: 'pending' },
              ],
            },
          },
        ],
      },
      {
        text: 'I will change one line.',
        calls: [
          {
            name: 'update_file',
            args: {
              path: 'src/auth.py',
              edits: [
                {
                  old_string: '    if token:\n        return True\n    return False',
                  new_string: '    return token is not None and token.valid',
                },
              ],
            },
          },
        ],
      },
      {
        calls: [
          { name: 'bash', args: { command: 'rm -r build' } },
          { name: 'bash', args: { command: 'echo one; echo two' } },
        ],
      },
      { text: ['The check ', 'looks at `valid` ', 'now.'], usage: { input: 2100, output: 60, cached: 800 } },
      { text: 'You are welcome.' },
    ],
    answers: [
      { optionId: 'allow_once' },
      { optionId: 'reject', feedback: 'Use make clean' },
      { optionId: 'allow_once' },
    ],
  },
  failed: { prompts: ['Hello'], replies: [{ error: 'authentication' }], answers: [] },
};

const provider = await startProvider();
for (const [name, recording] of Object.entries(RECORDINGS)) await record(name, recording);
provider.stop();

async function record(name: string, { prompts, replies, answers }: Recording): Promise<void> {
  const base = await mkdtemp(path.join(tmpdir(), 'pilotfish-record-'));
  const folder = path.join(base, 'shop');
  await mkdir(path.join(folder, 'src'), { recursive: true });
  await writeFile(path.join(folder, 'src/auth.py'), AUTH);
  await provider.script(...replies);
  const env = {
    ...process.env,
    OPENAI_API_KEY: 'sk-test',
    PILOTFISH_STORAGE: path.join(base, 'state'),
    PILOTFISH_CONFIG: path.join(base, 'config.toml'),
  };
  const child = spawn(path.join(ROOT, '.venv/bin/pilotfish'), ['serve'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout),
    new rpc.StreamMessageWriter(child.stdin),
  );
  const updates: UpdateParams[] = [];
  const approvals: ApprovalRequest[] = [];
  connection.onNotification('pilotfish/session/update', (params: UpdateParams) => void updates.push(params));
  connection.onRequest('pilotfish/approval/request', (request: ApprovalRequest) => {
    approvals.push(request);
    return answers.shift() ?? { optionId: 'reject' };
  });
  connection.onRequest((method: string) => (method === 'workspace/configuration' ? [{}] : null));
  connection.listen();
  const uri = pathToFileURL(folder).toString();
  await connection.sendRequest('initialize', {
    processId: process.pid,
    rootUri: uri,
    workspaceFolders: [{ uri, name: 'shop' }],
    capabilities: {},
    initializationOptions: {
      pilotfish: {
        protocolVersion: 1,
        client: { approvals: true },
        trusted: true,
        settings: { model: 'openai-chat:scripted', baseUrl: provider.url },
      },
    },
  });
  await connection.sendNotification('initialized', {});
  const { session } = (await connection.sendRequest('pilotfish/session/new', {})) as SessionResult;
  for (const text of prompts) {
    await connection.sendRequest('pilotfish/session/prompt', {
      sessionId: session.id,
      promptId: text,
      prompt: [{ type: 'text', text }],
    });
  }
  const loaded = (await connection.sendRequest('pilotfish/session/load', {
    sessionId: session.id,
  })) as SessionLoadResult;
  await connection.sendRequest('shutdown');
  await connection.sendNotification('exit');
  child.stdin.end();
  const text = JSON.stringify({ session, updates, approvals, loaded }, null, 1).replaceAll(base, '/home/ada');
  await writeFile(path.join(import.meta.dirname, 'recorded', `${name}.json`), `${text}\n`);
  await rm(base, { recursive: true, force: true });
  console.log(`${name}: ${updates.length} updates, ${loaded.items.length} items`);
}
