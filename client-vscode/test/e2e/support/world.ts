/** Sets up everything an e2e file needs: a workspace, the scripted provider, VS Code with the extension, and a browser. */

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Browser, openBrowser, Workbench } from './browser.ts';
import { type Provider, startProvider } from './provider.ts';
import { CLIENT, ROOT, startVscode, type Vscode } from './vscode.ts';

export const VSIX = process.env.VSIX ?? path.join(CLIENT, 'pilotfish.vsix');

export const AUTH = `from dataclasses import dataclass
from datetime import datetime


@dataclass
class Token:
    user: str
    expires: datetime
    valid: bool = True


def is_logged_in(token: Token | None) -> bool:
    if token:
        return True
    return False


def logout(token: Token) -> None:
    token.valid = False
`;

export interface World {
  folder: string;
  provider: Provider;
  vscode: Vscode;
  browser: Browser;
  workbench: Workbench;
  /** sends a signal to the server process: SIGKILL for a crash, SIGSTOP for a server that hangs */
  signalServer(signal: NodeJS.Signals): Promise<void>;
  /** the server's files with user settings, including rules */
  config(): Promise<string>;
  read(name: string): Promise<string>;
  write(name: string, text: string): Promise<void>;
  stop(): Promise<void>;
}

export interface WorldOptions {
  settings?: Record<string, unknown>;
  env?: Record<string, string>;
  trust?: boolean;
  /** packaged extensions beside ours */
  extensions?: readonly string[];
  viewport?: { width: number; height: number };
}

/** Sends the signal only to servers that store their sessions in this folder. */
async function signalServers(storage: string, signal: NodeJS.Signals): Promise<void> {
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const [command, environment] = await Promise.all(
      ['cmdline', 'environ'].map((name) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '')),
    );
    if (command?.includes('\0serve') && environment?.includes(`PILOTFISH_STORAGE=${storage}\0`))
      process.kill(Number(pid), signal);
  }
}

/** The lines about content security policy violations in the extension's log. */
async function violations(logs: string): Promise<readonly string[]> {
  const names = await readdir(logs, { recursive: true }).catch(() => []);
  const texts = names
    .filter((name) => name.endsWith('Pilotfish.log'))
    .map((name) => readFile(path.join(logs, name), 'utf8'));
  return (await Promise.all(texts)).flatMap((text) => text.split('\n').filter((line) => line.includes('CSP:')));
}

export async function makeWorld(options: WorldOptions = {}): Promise<World> {
  const base = await mkdtemp(path.join(tmpdir(), 'pilotfish-world-'));
  const folder = path.join(base, 'shop');
  await mkdir(path.join(folder, 'src'), { recursive: true });
  await writeFile(path.join(folder, 'src/auth.py'), AUTH);
  await writeFile(path.join(folder, 'src/token_store.py'), 'TOKENS = {}\n');
  await writeFile(path.join(folder, 'README.md'), '# Shop\n\nA small shop.\n');
  await writeFile(path.join(folder, 'settings.json'), '{\n  "retries": 3,\n  "retries": 4\n}\n');
  const provider = await startProvider();
  const settings = {
    'pilotfish.server.command': [path.join(ROOT, '.venv/bin/pilotfish')],
    'pilotfish.model': 'openai-chat:scripted',
    'pilotfish.baseUrl': provider.url,
    // Titles are requests of their own, which most scripts do not expect.
    'pilotfish.titles': false,
    // Turns of many tests end while the chat is hidden.
    'pilotfish.notifyFinished': false,
    ...options.settings,
  };
  const vscode = await startVscode({
    vsix: [VSIX, ...(options.extensions ?? [])],
    trust: options.trust ?? false,
    settings,
    env: {
      OPENAI_API_KEY: 'sk-test',
      PILOTFISH_STORAGE: path.join(base, 'state'),
      PILOTFISH_CONFIG: path.join(base, 'config.toml'),
      ...options.env,
    },
  });
  const browser = await openBrowser(options.viewport);
  const workbench = new Workbench(browser.page, vscode.url);
  return {
    folder,
    provider,
    vscode,
    browser,
    workbench,
    signalServer: (signal) => signalServers(path.join(base, 'state'), signal),
    config: () => readFile(path.join(base, 'config.toml'), 'utf8').catch(() => ''),
    read: (name) => readFile(path.join(folder, name), 'utf8'),
    write: (name, text) => writeFile(path.join(folder, name), text),
    stop: async () => {
      await browser.close();
      provider.stop();
      const found = await violations(path.join(vscode.home, 'user/logs'));
      await vscode.stop();
      await rm(base, { recursive: true, force: true });
      assert.deepEqual(found, [], 'the chat’s page violated its policy');
    },
  };
}
