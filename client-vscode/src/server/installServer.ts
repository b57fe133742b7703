/** Installs the server from the wheel in the extension into its own Python environment. */

import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import * as vscode from 'vscode';
import { run } from './findServer.ts';

/** The installation failed; the message is for the user. */
export class InstallFailed extends Error {}

const OLDEST_PYTHON = [3, 11] as const;
const VENV_MS = 120_000;
const PIP_MS = 600_000;

/** The path of the server's executable after the installation. */
export function installedServer(storage: string): string {
  const windows = process.platform === 'win32';
  return path.join(storage, 'server', windows ? 'Scripts' : 'bin', windows ? 'pilotfish.exe' : 'pilotfish');
}

/** The wheel in the extension, or undefined in a development build. */
export async function bundledWheel(extensionPath: string): Promise<string | undefined> {
  const wheel = (await readdir(extensionPath)).find((name) => /^pilotfish-.*\.whl$/.test(name));
  return wheel === undefined ? undefined : path.join(extensionPath, wheel);
}

export async function install(
  wheel: string,
  storage: string,
  step: (message: string) => void,
  log: vscode.LogOutputChannel,
  token: vscode.CancellationToken,
): Promise<void> {
  const environment = path.join(storage, 'server');
  step(vscode.l10n.t('Looking for Python…'));
  const python = await findPython();
  try {
    step(vscode.l10n.t('Creating a Python environment…'));
    await rm(environment, { recursive: true, force: true });
    await logOutput(log, run(python, ['-m', 'venv', environment], token, VENV_MS));
    step(vscode.l10n.t('Installing the server…'));
    const ownPython = path.join(
      path.dirname(installedServer(storage)),
      process.platform === 'win32' ? 'python.exe' : 'python',
    );
    await logOutput(
      log,
      run(ownPython, ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input', wheel], token, PIP_MS),
    );
  } catch (error) {
    await rm(environment, { recursive: true, force: true });
    if (token.isCancellationRequested) throw new InstallFailed(vscode.l10n.t('The installation was stopped.'));
    throw explain(error);
  }
}

async function findPython(): Promise<string> {
  const names =
    process.platform === 'win32'
      ? ['py', 'python']
      : ['python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11'];
  let tooOld: string | undefined;
  for (const name of names) {
    const output = await run(name, ['-c', 'import sys; print("%d.%d" % sys.version_info[:2])']).catch(() => undefined);
    const version = output === undefined ? undefined : /(\d+)\.(\d+)/.exec(output);
    if (!version) continue;
    if (isNewEnough(Number(version[1]), Number(version[2]))) return name;
    tooOld ??= `${version[1]}.${version[2]}`;
  }
  throw new InstallFailed(
    tooOld === undefined
      ? vscode.l10n.t('No Python found. Pilotfish needs Python {0} or newer on the PATH.', OLDEST_PYTHON.join('.'))
      : vscode.l10n.t('Python {0} is too old. Pilotfish needs Python {1} or newer.', tooOld, OLDEST_PYTHON.join('.')),
  );
}

export function isNewEnough(major: number, minor: number): boolean {
  return major > OLDEST_PYTHON[0] || (major === OLDEST_PYTHON[0] && minor >= OLDEST_PYTHON[1]);
}

async function logOutput(log: vscode.LogOutputChannel, running: Promise<string>): Promise<void> {
  try {
    log.info(await running);
  } catch (error) {
    log.error(outputOf(error));
    throw error;
  }
}

function explain(error: unknown): InstallFailed {
  const output = outputOf(error);
  if (/ensurepip|No module named .?venv/i.test(output)) {
    return new InstallFailed(
      vscode.l10n.t(
        'This Python cannot create virtual environments. Install its venv package (python3-venv) and try again.',
      ),
    );
  }
  if (
    /NewConnectionError|ConnectionError|Temporary failure in name resolution|getaddrinfo|Network is unreachable|ProxyError|timed out/i.test(
      output,
    )
  ) {
    return new InstallFailed(
      vscode.l10n.t('Cannot reach the Python package index. Check the network or proxy and try again.'),
    );
  }
  if (/No space left/i.test(output)) return new InstallFailed(vscode.l10n.t('The disk is full.'));
  return new InstallFailed(vscode.l10n.t('The server could not be installed: {0}', output.split('\n').at(-1) ?? ''));
}

function outputOf(error: unknown): string {
  if (error && typeof error === 'object' && 'output' in error && typeof error.output === 'string' && error.output)
    return error.output;
  return error instanceof Error ? error.message : String(error);
}
