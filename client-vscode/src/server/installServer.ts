/**
 * Installs the server from the extension into its own Python environment: the bundled wheel and exactly the packages
 * of the bundled lock file, checked by their hashes.
 *
 * uv does the work: the one on the PATH, or its wheel in a temporary folder. Where neither runs, pip does.
 */

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import * as vscode from 'vscode';
import { findProgram, run, type Surroundings } from './programs.ts';

/** The installation failed; the message is for the user, and the command, if there is one, mends it. */
export class InstallFailed extends Error {
  readonly command: string | undefined;

  constructor(message: string, command?: string) {
    super(message);
    this.command = command;
  }
}

export interface Bundle {
  wheel: string;
  /** the lock file of the server's dependencies */
  packages: string;
  /** the lock file of what runs models on this machine, which is installed when the user wants such a model */
  local: string;
  /** the lock file of uv */
  uv: string;
  /** changes with the wheel and with the lock file */
  digest: string;
}

export type Report = (percent: number, step: string) => void;

const OLDEST_PYTHON = [3, 11] as const;
const VENV_MS = 120_000;
const PACKAGES_MS = 600_000;
/** The installed environments that are kept: another window may still run the one before. */
const KEPT = 2;

/** What the extension installs, or undefined in a development build. */
export async function findBundle(extensionPath: string): Promise<Bundle | undefined> {
  const name = (await readdir(extensionPath)).find((one) => /^pilotfish-.*\.whl$/.test(one));
  const names = [name ?? '', 'dist/runtime.txt', 'dist/local.txt', 'dist/uv.txt'];
  const files = names.map((one) => path.join(extensionPath, one));
  const [wheel = '', packages = '', local = '', uv = ''] = files;
  if (name === undefined || !files.every((file) => existsSync(file))) return undefined;
  const digest = createHash('sha256')
    .update(await readFile(wheel))
    .update(await readFile(packages));
  return { wheel, packages, local, uv, digest: digest.digest('hex').slice(0, 12) };
}

/** The command of the server that was installed from this bundle, or undefined if it is not installed. */
export function installedServer(storage: string, { digest }: Bundle): readonly string[] | undefined {
  const python = pythonIn(environmentOf(storage, digest));
  // -I: neither the current folder nor PYTHONPATH can add modules.
  return existsSync(python) ? [python, '-I', '-m', 'pilotfish'] : undefined;
}

/** Installs the bundle if it is not installed yet. A half-finished environment is never used. */
export async function install(
  bundle: Bundle,
  surroundings: Surroundings,
  report: Report,
  log: vscode.LogOutputChannel,
  token: vscode.CancellationToken,
): Promise<void> {
  const { storage } = surroundings;
  if (installedServer(storage, bundle)) return;
  await inTemporaryFolder(surroundings, log, token, async (work, call) => {
    report(0, vscode.l10n.t('Looking for Python…'));
    const onPath = await findUv(surroundings);
    const python = await findPython(surroundings, onPath !== undefined);
    report(5, vscode.l10n.t('Preparing the installer…'));
    const uv = onPath ?? (await fetchUv(call, python, bundle.uv, work, log));
    report(25, vscode.l10n.t('Creating a Python environment…'));
    const environment = path.join(work, 'server');
    if (python === undefined && uv) await call(PACKAGES_MS, uv, 'venv', '--python', '>=3.11', environment);
    else await call(VENV_MS, python ?? '', '-I', '-m', 'venv', ...(uv ? ['--without-pip'] : []), environment);
    const own = pythonIn(environment);
    const [program, ...args] = installer(uv, own);
    report(30, vscode.l10n.t('Installing packages…'));
    await call(PACKAGES_MS, program, ...args, '--require-hashes', '--requirement', bundle.packages);
    report(85, vscode.l10n.t('Installing the server…'));
    await call(PACKAGES_MS, program, ...args, '--no-deps', '--no-index', bundle.wheel);
    if (token.isCancellationRequested) throw new Error('cancelled');
    const final = environmentOf(storage, bundle.digest);
    // Another window may have finished first.
    await rename(environment, final).catch((error) => {
      if (!existsSync(final)) throw error;
    });
    await removeOld(storage, final);
  });
}

/** Installs what runs models on this machine into the installed server's environment. A running server finds it. */
export async function installLocal(
  bundle: Bundle,
  surroundings: Surroundings,
  report: Report,
  log: vscode.LogOutputChannel,
  token: vscode.CancellationToken,
): Promise<void> {
  const own = pythonIn(environmentOf(surroundings.storage, bundle.digest));
  await inTemporaryFolder(surroundings, log, token, async (work, call) => {
    report(0, vscode.l10n.t('Preparing the installer…'));
    const uv = (await findUv(surroundings)) ?? (await fetchUv(call, own, bundle.uv, work, log));
    report(40, vscode.l10n.t('Installing llama.cpp…'));
    const [program, ...args] = installer(uv, own);
    const options = ['--only-binary', ':all:', '--require-hashes', '--requirement', bundle.local];
    await call(PACKAGES_MS, program, ...args, ...options);
    if (token.isCancellationRequested) throw new Error('cancelled');
  });
}

type Call = (timeout: number, program: string, ...args: readonly string[]) => Promise<void>;

/** Runs the steps of an installation with a folder of their own, and explains what fails. */
async function inTemporaryFolder(
  surroundings: Surroundings,
  log: vscode.LogOutputChannel,
  token: vscode.CancellationToken,
  steps: (work: string, call: Call) => Promise<void>,
): Promise<void> {
  const work = path.join(surroundings.storage, `installing-${process.pid}-${Date.now()}`);
  const call: Call = async (timeout, program, ...args) => {
    log.info(`${program} ${args.join(' ')}`);
    log.info(await run(surroundings, program, args, { token, timeout }));
  };
  try {
    await mkdir(work, { recursive: true });
    await steps(work, call);
  } catch (error) {
    if (token.isCancellationRequested) throw new InstallFailed(vscode.l10n.t('The installation was stopped.'));
    if (error instanceof InstallFailed) throw error;
    log.error(outputOf(error));
    throw explain(error);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The command that installs packages into an environment: uv, or the environment's own pip. */
function installer(uv: string | undefined, python: string): [string, ...string[]] {
  return uv
    ? [uv, 'pip', 'install', '--python', python]
    : [python, '-I', '-m', 'pip', 'install', '--disable-pip-version-check', '--no-input'];
}

function environmentOf(storage: string, digest: string): string {
  return path.join(storage, `server-${digest}`);
}

function pythonIn(environment: string): string {
  return process.platform === 'win32'
    ? path.join(environment, 'Scripts', 'python.exe')
    : path.join(environment, 'bin', 'python');
}

async function removeOld(storage: string, current: string): Promise<void> {
  const names = (await readdir(storage)).filter((name) => /^server(-|$)/.test(name));
  const places = names.map((name) => path.join(storage, name)).filter((place) => place !== current);
  const dated = await Promise.all(places.map(async (place) => ({ place, at: (await stat(place)).mtimeMs })));
  const old = dated.toSorted((a, b) => b.at - a.at).slice(KEPT - 1);
  for (const { place } of old) await rm(place, { recursive: true, force: true });
}

/** The uv on the PATH, if it runs. */
async function findUv(surroundings: Surroundings): Promise<string | undefined> {
  const uv = findProgram(surroundings, 'uv');
  if (uv === undefined) return undefined;
  return run(surroundings, uv, ['--version']).then(
    () => uv,
    () => undefined,
  );
}

/**
 * Installs uv from its wheel into a temporary folder, with the pip of this Python if it has one: to make an environment
 * with a pip of its own takes longer than all the rest. Returns undefined where there is no wheel of uv.
 */
async function fetchUv(
  call: Call,
  python: string | undefined,
  lock: string,
  work: string,
  log: vscode.LogOutputChannel,
): Promise<string | undefined> {
  const place = path.join(work, 'uv');
  const options = ['--disable-pip-version-check', '--no-input', '--only-binary', ':all:', '--require-hashes'];
  const program = python ?? '';
  const hasPip = await call(VENV_MS, program, '-I', '-m', 'pip', '--version').then(
    () => true,
    () => false,
  );
  try {
    if (hasPip) {
      const target = ['--no-user', '--target', place];
      await call(PACKAGES_MS, program, '-I', '-m', 'pip', 'install', ...options, ...target, '--requirement', lock);
      return path.join(place, 'bin', process.platform === 'win32' ? 'uv.exe' : 'uv');
    }
    const own = pythonIn(place);
    await call(VENV_MS, program, '-I', '-m', 'venv', place);
    await call(PACKAGES_MS, own, '-I', '-m', 'pip', 'install', ...options, '--requirement', lock);
    return path.join(path.dirname(own), process.platform === 'win32' ? 'uv.exe' : 'uv');
  } catch (error) {
    if (!/No matching distribution|not a supported wheel|activated virtualenv/i.test(outputOf(error))) throw error;
    log.info('uv cannot be installed on this machine: pip installs the packages');
    return undefined;
  }
}

/** A Python that is new enough. uv can bring its own, so with uv there may be none. */
async function findPython(surroundings: Surroundings, canDoWithout: boolean): Promise<string | undefined> {
  const names =
    process.platform === 'win32'
      ? ['py', 'python']
      : ['python3', 'python', 'python3.14', 'python3.13', 'python3.12', 'python3.11'];
  let tooOld: string | undefined;
  for (const name of names) {
    const program = findProgram(surroundings, name);
    if (program === undefined) continue;
    const script = 'import sys; print("%d.%d" % sys.version_info[:2])';
    const output = await run(surroundings, program, ['-I', '-c', script]).catch(() => undefined);
    const version = output === undefined ? undefined : /(\d+)\.(\d+)/.exec(output);
    if (!version) continue;
    if (isNewEnough(Number(version[1]), Number(version[2]))) return program;
    tooOld ??= `${version[1]}.${version[2]}`;
  }
  if (canDoWithout) return undefined;
  const oldest = OLDEST_PYTHON.join('.');
  throw tooOld === undefined
    ? new InstallFailed(
        vscode.l10n.t('No Python found. Pilotfish needs Python {0} or newer.', oldest),
        pythonCommand(surroundings),
      )
    : new InstallFailed(
        vscode.l10n.t('Python {0} is too old. Pilotfish needs Python {1} or newer.', tooOld, oldest),
        UV_COMMAND,
      );
}

export function isNewEnough(major: number, minor: number): boolean {
  return major > OLDEST_PYTHON[0] || (major === OLDEST_PYTHON[0] && minor >= OLDEST_PYTHON[1]);
}

/** Installs uv, which brings a Python of its own: the way out where the system's Python is too old. */
const UV_COMMAND =
  process.platform === 'win32' ? 'winget install astral-sh.uv' : 'curl -LsSf https://astral.sh/uv/install.sh | sh';

/** The command that installs Python with the machine's own package manager. */
function pythonCommand(surroundings: Surroundings): string {
  const managers: readonly (readonly [string, string])[] = [
    ['winget', 'winget install Python.Python.3.13'],
    ['brew', 'brew install python'],
    ['apt-get', 'sudo apt-get install python3 python3-venv'],
    ['dnf', 'sudo dnf install python3'],
    ['pacman', 'sudo pacman -S python'],
    ['zypper', 'sudo zypper install python3'],
    ['apk', 'sudo apk add python3'],
  ];
  return managers.find(([name]) => findProgram(surroundings, name) !== undefined)?.[1] ?? UV_COMMAND;
}

const NETWORK =
  /NewConnectionError|ConnectionError|Temporary failure in name resolution|getaddrinfo|Network is unreachable|ProxyError|timed out|error sending request|dns error|tcp connect error/i;

function explain(error: unknown): InstallFailed {
  const output = outputOf(error);
  if (/ensurepip|No module named .?venv/i.test(output)) {
    return new InstallFailed(
      vscode.l10n.t('This Python cannot create virtual environments.'),
      process.platform === 'linux' ? 'sudo apt-get install python3-venv' : UV_COMMAND,
    );
  }
  if (NETWORK.test(output)) {
    return new InstallFailed(
      vscode.l10n.t('Cannot reach the Python package index. Check the network or proxy and try again.'),
    );
  }
  if (/No space left/i.test(output)) return new InstallFailed(vscode.l10n.t('The disk is full.'));
  if (/hash/i.test(output) && /mismatch|do not match/i.test(output)) {
    return new InstallFailed(
      vscode.l10n.t('A downloaded package is not the one that this extension was made with. Nothing was installed.'),
    );
  }
  if (/No matching distribution|not a supported wheel|no wheels? with a matching|has no usable wheels/i.test(output)) {
    return new InstallFailed(vscode.l10n.t('There is no ready-made package for this machine. Nothing was installed.'));
  }
  return new InstallFailed(vscode.l10n.t('The server could not be installed: {0}', output.split('\n').at(-1) ?? ''));
}

function outputOf(error: unknown): string {
  if (error && typeof error === 'object' && 'output' in error && typeof error.output === 'string' && error.output)
    return error.output;
  return error instanceof Error ? error.message : String(error);
}
