import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CancellationToken, LogOutputChannel } from 'vscode';
import { findServer } from '../../../src/server/findServer.ts';
import {
  type Bundle,
  findBundle,
  InstallFailed,
  install,
  installedServer,
  installLocal,
  isNewEnough,
} from '../../../src/server/installServer.ts';
import { findProgram, isInside } from '../../../src/server/programs.ts';
import { type Python, writePython } from '../../e2e/support/python.ts';
import { workspace } from '../support/vscode.ts';

const log = { info: () => {}, error: () => {} } as unknown as LogOutputChannel;
const never = { isCancellationRequested: false, onCancellationRequested: () => {} } as unknown as CancellationToken;
const PATH = process.env.PATH;

let root: string;
let storage: string;
let project: string;
const bin = () => path.join(root, 'bin');
const surroundings = () => ({ storage, folders: [project] });

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'pilotfish-install-'));
  storage = path.join(root, 'storage');
  project = path.join(root, 'project');
  for (const folder of [storage, project, bin(), path.join(root, 'extension/dist')])
    await mkdir(folder, { recursive: true });
  process.env.PATH = bin();
});
afterEach(async () => {
  process.env.PATH = PATH;
  workspace.isTrusted = true;
  await rm(root, { recursive: true, force: true });
});

describe('installing the server', () => {
  let steps: [number, string][];
  let bundle: Bundle;
  const asked = async () => (await readFile(path.join(root, 'asked'), 'utf8')).replaceAll(root, '').split('\n');
  const python = (one: Partial<Python> & { in?: string } = {}) =>
    writePython(one.in ?? bin(), { version: '3.12', asked: path.join(root, 'asked'), ...one });
  const run = (token = never) => install(bundle, surroundings(), (...step) => steps.push(step), log, token);
  const failure = () =>
    run().then(
      () => 'installed',
      (error) => (error instanceof InstallFailed ? [error.message, error.command] : `unexpected: ${error}`),
    );

  beforeEach(async () => {
    steps = [];
    const extension = path.join(root, 'extension');
    for (const name of ['pilotfish-0.1.0-py3-none-any.whl', 'dist/runtime.txt', 'dist/local.txt', 'dist/uv.txt'])
      await writeFile(path.join(extension, name), name);
    const found = await findBundle(extension);
    if (!found) throw new Error('no bundle');
    bundle = found;
  });

  it('adds what runs models on this machine to the installed environment, as the lock file names it', async () => {
    await python();
    await run();
    await rm(path.join(root, 'asked'));
    const local = () => installLocal(bundle, surroundings(), (...step) => steps.push(step), log, never);
    await local();
    const called = (await asked()).find((line) => line.includes('local.txt'));
    expect(called).toContain('--only-binary :all: --require-hashes --requirement /extension/dist/local.txt');
    expect(called).toContain(`pip install --python /storage/server-${bundle.digest}/bin/python`);
    expect((await readdir(storage)).filter((name) => name.startsWith('installing'))).toEqual([]);
    const environment = path.join(storage, `server-${bundle.digest}/bin`);
    await python({ in: environment, name: 'python', fails: 'has no usable wheels' });
    await expect(local()).rejects.toThrow('There is no ready-made package for this machine. Nothing was installed.');
  });

  it('reports what is missing, with the command that mends it', async () => {
    const uv = 'curl -LsSf https://astral.sh/uv/install.sh | sh';
    expect(await failure()).toEqual(['No Python found. Pilotfish needs Python 3.11 or newer.', uv]);
    await writePython(bin(), { version: '0', name: 'apt-get' });
    expect(await failure()).toEqual([
      'No Python found. Pilotfish needs Python 3.11 or newer.',
      'sudo apt-get install python3 python3-venv',
    ]);
    await python({ version: '3.8' });
    expect(await failure()).toEqual(['Python 3.8 is too old. Pilotfish needs Python 3.11 or newer.', uv]);
    await python({ venv: 'No module named ensurepip' });
    expect(await failure()).toEqual([
      'This Python cannot create virtual environments.',
      'sudo apt-get install python3-venv',
    ]);
  });

  it.each([
    [
      'NewConnectionError: no route',
      'Cannot reach the Python package index. Check the network or proxy and try again.',
    ],
    ['OSError: No space left on device', 'The disk is full.'],
    [
      'Hash mismatch for pygls',
      'A downloaded package is not the one that this extension was made with. Nothing was installed.',
    ],
    ['ERROR: a wheel is broken', 'The server could not be installed: ERROR: a wheel is broken'],
  ])('reports why packages cannot be installed, and leaves nothing behind: %s', async (fails, message) => {
    await python({ fails });
    expect(await failure()).toEqual([message, undefined]);
    expect(await readdir(storage)).toEqual([]);
  });

  it('finds a newer Python next to an old one', async () => {
    await python({ version: '3.8' });
    await python({ name: 'python3.12' });
    expect(await failure()).toBe('installed');
  });

  it('reports that the user stopped it', async () => {
    await python({ fails: 'Killed' });
    const stopped = { ...never, isCancellationRequested: true } as CancellationToken;
    await expect(run(stopped)).rejects.toThrow('The installation was stopped.');
  });

  it('installs locked packages by their hashes, then the wheel, and never in the workspace', async () => {
    await python();
    await run();
    expect(steps.map(([percent]) => percent)).toEqual([0, 5, 25, 30, 85]);
    const calls = await asked();
    expect(calls.filter((call) => call && !call.startsWith('/storage: '))).toEqual([]);
    expect(calls.filter((call) => !/^\/storage: (-I|uv) /.test(call))).toEqual(['']);
    expect(calls.find((call) => call.includes('dist/uv.txt'))).toMatch(/ --only-binary :all: --require-hashes /);
    expect(calls.find((call) => call.includes('dist/runtime.txt'))).toMatch(/: uv pip install .* --require-hashes /);
    expect(calls.find((call) => call.includes('.whl'))).toMatch(/: uv pip install .* --no-deps --no-index /);
    expect(await readdir(storage)).toEqual([`server-${bundle.digest}`]);
    expect(installedServer(storage, bundle)?.slice(1)).toEqual(['-I', '-m', 'pilotfish']);
  });

  it('installs uv with the pip of a Python that has one, without an environment for that', async () => {
    await python();
    await run();
    const made = async () => (await asked()).filter((call) => call.includes('-m venv'));
    expect(await made()).toEqual([expect.stringContaining('--without-pip')]);
    expect((await asked()).find((call) => call.includes('dist/uv.txt'))).toContain(' --no-user --target ');
    await rm(path.join(root, 'asked'));
    await rm(storage, { recursive: true });
    await mkdir(storage);
    await python({ noPip: true });
    await run();
    expect(await made()).toEqual([expect.stringMatching(/-m venv \S+\/uv$/), expect.stringContaining('--without-pip')]);
    expect((await asked()).find((call) => call.includes('runtime.txt'))).toMatch(/: uv pip install /);
  });

  it('uses pip where there is no wheel of uv', async () => {
    await python({ noUv: 'ERROR: No matching distribution found for uv' });
    await run();
    expect((await asked()).find((call) => call.includes('runtime.txt'))).toMatch(
      /-I -m pip install .*--require-hashes/,
    );
  });

  it('uses a finished installation again, and a new one for another bundle', async () => {
    await python();
    await run();
    const before = (await asked()).length;
    await run();
    expect((await asked()).length).toBe(before);
    await writeFile(bundle.packages, 'newer');
    const next = await findBundle(path.join(root, 'extension'));
    expect(next?.digest).not.toBe(bundle.digest);
    expect(next && installedServer(storage, next)).toBeUndefined();
  });

  it('takes nothing from the workspace, even if it is first on the PATH', async () => {
    const venv = path.join(project, '.venv/bin');
    await mkdir(venv, { recursive: true });
    await symlink(venv, path.join(root, 'linked'));
    await python({ in: venv, asked: path.join(root, 'hostile') });
    process.env.PATH = [venv, '.', path.join(root, 'linked'), bin()].join(path.delimiter);
    expect(await failure()).toEqual(['No Python found. Pilotfish needs Python 3.11 or newer.', expect.anything()]);
    await python();
    expect(await failure()).toBe('installed');
    await expect(readFile(path.join(root, 'hostile'))).rejects.toThrow('ENOENT');
  });
});

describe('finding the server', () => {
  const server = async (folder: string) => {
    await mkdir(folder, { recursive: true });
    const file = path.join(folder, 'pilotfish');
    await writeFile(file, `#!/bin/sh\necho "$PWD" >> ${path.join(root, 'ran')}\necho 0.1.0\n`, { mode: 0o755 });
    return file;
  };
  const ran = () => readFile(path.join(root, 'ran'), 'utf8').catch(() => '');

  it('takes one on the PATH, and asks for its version outside the workspace', async () => {
    const file = await server(bin());
    expect((await findServer(undefined, '0.1.0', surroundings(), log)).found?.command).toEqual([file]);
    expect(await ran()).toBe(`${storage}\n`);
  });

  it('does not run one that belongs to the workspace', async () => {
    const venv = path.join(project, '.venv/bin');
    await server(venv);
    process.env.PATH = venv;
    expect((await findServer(undefined, '0.1.0', surroundings(), log)).found).toBeUndefined();
    expect(await ran()).toBe('');
  });

  it('runs nothing but its own installation in Restricted Mode', async () => {
    await server(bin());
    workspace.isTrusted = false;
    expect((await findServer(undefined, '0.1.0', surroundings(), log)).found).toBeUndefined();
    const own = ['/own/python', '-I', '-m', 'pilotfish'];
    expect((await findServer(own, '0.1.0', surroundings(), log)).found?.command).toEqual(own);
    expect(await ran()).toBe('');
  });
});

it('a file is inside a folder by its own path or by what it links to', async () => {
  await writeFile(path.join(project, 'tool'), '', { mode: 0o755 });
  await symlink(path.join(project, 'tool'), path.join(bin(), 'tool'));
  expect(isInside(path.join(bin(), 'tool'), [project])).toBe(true);
  expect(findProgram(surroundings(), 'tool')).toBeUndefined();
  expect(isInside(path.join(root, 'project-2/tool'), [project])).toBe(false);
  expect(isInside(path.join(project, '..tool'), [project])).toBe(true);
});

it('Python 3.11 is the oldest supported version', () => {
  expect([isNewEnough(3, 10), isNewEnough(3, 11), isNewEnough(3, 14), isNewEnough(2, 7)]).toEqual([
    false,
    true,
    true,
    false,
  ]);
});
