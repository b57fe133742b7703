/** Runs the scripted provider of the Python tests as a child process. */

import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { endGroup, ROOT } from './vscode.ts';

export interface Reply {
  text?: string | string[];
  thoughts?: string | string[];
  calls?: { name: string; args: Record<string, unknown>; id?: string }[];
  parts?: Record<string, unknown>[];
  delay?: number;
  wait?: number;
  times?: number;
  end?: string;
  error?: string;
  retryAfter?: number;
  usage?: { input?: number; output?: number; cached?: number };
  when?: string;
  repeat?: number;
}

export interface Provider {
  url: string;
  script(...replies: Reply[]): Promise<void>;
  /** the requests to the model as JSON text, newest last */
  requests(): Promise<string[]>;
  /** refuses any other key from now on */
  accept(key: string): Promise<void>;
  /** holds replies back from now on */
  hold(): Promise<void>;
  /** releases the replies */
  release(): Promise<void>;
  stop(): void;
}

/** The same reply, held back until the provider releases it. */
export function held(reply: Reply): Reply {
  const { calls = [], text, ...rest } = reply;
  const words = text === undefined ? [] : [{ text: Array.isArray(text) ? text.join('') : text }];
  return { ...rest, parts: [{ gate: true }, ...words, ...calls.map((call) => ({ call }))] };
}

export async function startProvider(): Promise<Provider> {
  const python = path.join(ROOT, '.venv/bin/python');
  const child: ChildProcess = spawn(python, ['-m', 'tests.support.provider', '--port', '0'], {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (!child.stdout) throw new Error('no output');
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', () => reject(new Error('the provider did not start')));
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).once('line', (line) =>
      resolve(Number(/\d+/.exec(line)?.[0])),
    );
  });
  const base = `http://127.0.0.1:${port}`;
  const send = (name: string, body?: unknown) =>
    fetch(`${base}/${name}`, { method: 'POST', body: JSON.stringify(body ?? []) });
  return {
    url: `${base}/v1`,
    script: async (...replies) => void (await send('_script', replies)),
    requests: async () =>
      ((await (await fetch(`${base}/_requests`)).json()) as unknown[]).map((one) => JSON.stringify(one)),
    accept: async (key) => void (await send('_key', { key })),
    hold: async () => void (await send('_hold')),
    release: async () => void (await send('_release')),
    stop: () => endGroup(child),
  };
}
