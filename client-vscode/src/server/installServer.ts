/** The server in an environment of its own, from the wheel inside the extension. */

import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import * as vscode from 'vscode';
import { run } from './findServer.ts';

/** An installation that did not work, in words for the user. */
export class InstallFailed extends Error {}

const OLDEST_PYTHON = [3, 11] as const;
const VENV_MS = 120_000;
const PIP_MS = 600_000;

/** Where the server's program is once it is installed. */
export function ownServer(storage: string): string {
  const windows = process.platform === 'win32';
  return path.join(storage, 'server', windows ? 'Scripts' : 'bin', windows ? 'pilotfish.exe' : 'pilotfish');
}

/** The wheel that came with the extension; none in a development build. */
export async function bundledWheel(extensionPath: string): Promise<string | undefined> {
  const wheel = (await readdir(extensionPath)).find((name) => /^pilotfish-.*\.whl$/.test(name));
  return wheel === undefined ? undefined : path.join(extensionPath, wheel);
}

export async function install(
  wheel: string,
  storage: string,
  step: (words: string) => void,
  log: vscode.LogOutputChannel,
  token: vscode.CancellationToken,
): Promise<void> {
  const place = path.join(storage, 'server');
  step(vscode.l10n.t('Looking for Python…'));
  const python = await findPython();
  try {
    step(vscode.l10n.t('Making an environment…'));
    await rm(place, { recursive: true, force: true });
    await logged(log, run(python, ['-m', 'venv', place], token, VENV_MS));
    step(vscode.l10n.t('Installing the server…'));
    const inside = path.join(path.dirname(ownServer(storage)), process.platform === 'win32' ? 'python.exe' : 'python');
    await logged(
      log,
      run(inside, ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input', wheel], token, PIP_MS),
    );
  } catch (error) {
    await rm(place, { recursive: true, force: true });
    if (token.isCancellationRequested) throw new InstallFailed(vscode.l10n.t('The installation was stopped.'));
    throw explained(error);
  }
}

async function findPython(): Promise<string> {
  const names =
    process.platform === 'win32'
      ? ['py', 'python']
      : ['python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11'];
  let newest: string | undefined;
  for (const name of names) {
    const output = await run(name, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']).catch(() => undefined);
    const version = output === undefined ? undefined : /(\d+)\.(\d+)/.exec(output);
    if (!version) continue;
    if (isNewEnough(Number(version[1]), Number(version[2]))) return name;
    newest ??= `${version[1]}.${version[2]}`;
  }
  throw new InstallFailed(
    newest === undefined
      ? vscode.l10n.t('No Python found. Pilotfish needs Python {0} or newer on the PATH.', OLDEST_PYTHON.join('.'))
      : vscode.l10n.t('Python {0} is too old. Pilotfish needs Python {1} or newer.', newest, OLDEST_PYTHON.join('.')),
  );
}

export function isNewEnough(major: number, minor: number): boolean {
  return major > OLDEST_PYTHON[0] || (major === OLDEST_PYTHON[0] && minor >= OLDEST_PYTHON[1]);
}

async function logged(log: vscode.LogOutputChannel, running: Promise<string>): Promise<void> {
  try {
    log.info(await running);
  } catch (error) {
    log.error(saidBy(error));
    throw error;
  }
}

function explained(error: unknown): InstallFailed {
  const said = saidBy(error);
  if (/ensurepip|No module named .?venv/i.test(said)) {
    return new InstallFailed(
      vscode.l10n.t('This Python cannot make environments. Install its venv package (python3-venv), then try again.'),
    );
  }
  if (
    /NewConnectionError|ConnectionError|Temporary failure in name resolution|getaddrinfo|Network is unreachable|ProxyError|timed out/i.test(
      said,
    )
  ) {
    return new InstallFailed(
      vscode.l10n.t("Can't reach the Python package index. Check the network or proxy, then try again."),
    );
  }
  if (/No space left/i.test(said)) return new InstallFailed(vscode.l10n.t('The disk is full.'));
  return new InstallFailed(vscode.l10n.t('The server could not be installed: {0}', said.split('\n').at(-1) ?? ''));
}

function saidBy(error: unknown): string {
  if (error && typeof error === 'object' && 'said' in error && typeof error.said === 'string' && error.said)
    return error.said;
  return error instanceof Error ? error.message : String(error);
}
