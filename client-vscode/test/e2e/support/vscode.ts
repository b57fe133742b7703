/** Starts a real VS Code for a test: code-server on a free port, with its own user data, extensions and environment. */

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createWriteStream, existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

export const CLIENT = path.resolve(import.meta.dirname, '../../..');
export const ROOT = path.dirname(CLIENT);
export const E2E = path.join(ROOT, '.e2e');
export const SHOTS = process.env.SHOTS ?? path.join(E2E, 'shots');
const CODE_SERVER = path.join(E2E, 'code-server/node_modules/code-server');

export interface Options {
  settings?: Record<string, unknown>;
  env?: Record<string, string>;
  /** packaged extensions to install */
  vsix?: readonly string[];
  /** needed by mocha in the extension host; hides notifications */
  smokeTestDriver?: boolean;
  trust?: boolean;
}

export interface Vscode {
  url: string;
  port: number;
  home: string;
  stop(): Promise<void>;
}

const QUIET_SETTINGS = {
  'workbench.startupEditor': 'none',
  'workbench.tips.enabled': false,
  'workbench.welcomePage.walkthroughs.openOnInstall': false,
  'telemetry.telemetryLevel': 'off',
  'update.mode': 'none',
  'extensions.autoUpdate': 'off',
  'extensions.autoCheckUpdates': false,
  'extensions.ignoreRecommendations': true,
  'chat.disableAIFeatures': true,
  'workbench.enableExperiments': false,
  'git.enabled': false,
  'security.workspace.trust.enabled': false,
  'workbench.secondarySideBar.defaultVisibility': 'visible',
  'files.autoSave': 'off',
  'editor.minimap.enabled': false,
};

export async function startVscode(options: Options = {}): Promise<Vscode> {
  const home = await mkdtemp(path.join(tmpdir(), 'pilotfish-e2e-'));
  const user = path.join(home, 'user');
  await writeFile(path.join(home, 'config.yaml'), '');
  // VS Code reads its environment from a login shell.
  if (options.env?.PATH) await writeFile(path.join(home, '.profile'), `export PATH='${options.env.PATH}'\n`);
  // VS Code reads machine settings from the remote's file after it has written user settings.
  for (const place of ['User', 'Machine']) {
    await mkdir(path.join(user, place), { recursive: true });
    const settings = { ...QUIET_SETTINGS, ...options.settings };
    await writeFile(path.join(user, place, 'settings.json'), JSON.stringify(settings, null, 2));
  }
  const places = [
    '--user-data-dir',
    user,
    '--extensions-dir',
    path.join(home, 'extensions'),
    '--config',
    path.join(home, 'config.yaml'),
  ];
  const env = {
    ...clean(process.env),
    PATH: `${E2E}/bin:${process.env.PATH}`,
    HOME: home,
    XDG_CONFIG_HOME: path.join(home, 'config'),
    ...options.env,
  };
  if (options.vsix) {
    const installed = options.vsix.flatMap((vsix) => ['--install-extension', vsix]);
    await promisify(execFile)(path.join(E2E, 'bin/node'), [CODE_SERVER, ...places, ...installed], { env });
  }
  const port = await freePort();
  const args = [
    CODE_SERVER,
    ...places,
    ...['--auth', 'none', '--bind-addr', `127.0.0.1:${port}`, '--disable-telemetry', '--disable-update-check'],
    ...['--disable-getting-started-override', '--disable-proxy', '--reconnection-grace-time', '5'],
    ...(options.trust ? [] : ['--disable-workspace-trust']),
    ...(options.smokeTestDriver ? ['--vscode-option', 'enable-smoke-test-driver'] : []),
  ];
  const child = spawn(path.join(E2E, 'bin/node'), args, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const log = createWriteStream(path.join(home, 'code-server.log'));
  child.stdout.pipe(log);
  child.stderr.pipe(log);
  await listening(port, child);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    home,
    stop: async () => {
      endGroup(child);
      await new Promise((done) => (child.exitCode === null ? child.once('exit', done) : done(undefined)));
      await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
    },
  };
}

export function chromiumPath(): string {
  const found = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
    (one) => one !== undefined && existsSync(one),
  );
  if (!found) throw new Error('no Chromium: run test/e2e/install.sh');
  return found;
}

export function endGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // the process has already ended
  }
}

/** The environment of a fresh machine: without API keys, proxies of this process and variables of an editor. */
function clean(env: NodeJS.ProcessEnv): Record<string, string> {
  const dropped = /^(VSCODE_|ELECTRON_|PILOTFISH_|.*_API_KEY$|NODE_OPTIONS$|VITEST)/;
  return Object.fromEntries(
    Object.entries(env).filter(([name, value]) => value !== undefined && !dropped.test(name)),
  ) as Record<string, string>;
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

async function listening(port: number, child: ChildProcess): Promise<void> {
  for (let attempt = 0; attempt < 900; attempt += 1) {
    if (child.exitCode !== null) throw new Error(`code-server ended with ${child.exitCode}`);
    try {
      await fetch(`http://127.0.0.1:${port}/healthz`);
      return;
    } catch {
      await new Promise((later) => setTimeout(later, 100));
    }
  }
  throw new Error('code-server does not answer');
}
