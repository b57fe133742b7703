import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CancellationToken, LogOutputChannel } from 'vscode';
import {
  bundledWheel,
  InstallFailed,
  install,
  installedServer,
  isNewEnough,
} from '../../../src/server/installServer.ts';
import { writePython } from '../../e2e/support/python.ts';

const log = { info: () => {}, error: () => {} } as unknown as LogOutputChannel;
const never = { isCancellationRequested: false, onCancellationRequested: () => {} } as unknown as CancellationToken;
const PATH = process.env.PATH;

describe('installing the server', () => {
  let folder: string;
  let storage: string;
  let steps: string[];
  const run = (token = never) => install('/wheels/pilotfish.whl', storage, (step) => steps.push(step), log, token);
  const failure = () =>
    run().then(
      () => 'installed',
      (error) => (error instanceof InstallFailed ? error.message : `unexpected: ${error}`),
    );

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'pilotfish-install-'));
    storage = path.join(folder, 'storage');
    steps = [];
    process.env.PATH = path.join(folder, 'bin');
    await mkdir(path.join(folder, 'bin'));
  });
  afterEach(async () => {
    process.env.PATH = PATH;
    await rm(folder, { recursive: true, force: true });
  });

  it('reports that there is no Python', async () => {
    expect(await failure()).toBe('No Python found. Pilotfish needs Python 3.11 or newer on the PATH.');
  });

  it('reports that Python is too old', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.8' });
    expect(await failure()).toBe('Python 3.8 is too old. Pilotfish needs Python 3.11 or newer.');
  });

  it('finds a newer Python next to an old one', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.8' });
    await writePython(path.join(folder, 'bin'), { version: '3.12', name: 'python3.12' });
    expect(await failure()).toBe('installed');
  });

  it('reports that the package index cannot be reached, and removes the environment', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'NewConnectionError: no route to host' });
    expect(await failure()).toBe('Cannot reach the Python package index. Check the network or proxy and try again.');
    await expect(stat(path.join(storage, 'server'))).rejects.toThrow('ENOENT');
  });

  it('reports that Python cannot create environments', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', venv: 'No module named ensurepip' });
    expect(await failure()).toBe(
      'This Python cannot create virtual environments. Install its venv package (python3-venv) and try again.',
    );
  });

  it('reports that the disk is full, and otherwise the last line of pip', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'OSError: No space left on device' });
    expect(await failure()).toBe('The disk is full.');
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'ERROR: a wheel is broken' });
    expect(await failure()).toBe('The server could not be installed: ERROR: a wheel is broken');
  });

  it('reports that the user stopped it', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'Killed' });
    const stopped = {
      isCancellationRequested: true,
      onCancellationRequested: () => {},
    } as unknown as CancellationToken;
    await expect(run(stopped)).rejects.toThrow('The installation was stopped.');
  });

  it('installs the wheel of the extension', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', server: '/usr/bin/true' });
    await run();
    expect(steps).toEqual(['Looking for Python…', 'Creating a Python environment…', 'Installing the server…']);
    expect((await stat(installedServer(storage))).isFile()).toBe(true);
    expect(await readFile(path.join(storage, 'server/asked'), 'utf8')).toMatch(/\/wheels\/pilotfish\.whl\n$/);
  });

  it('finds the wheel in the extension', async () => {
    expect(await bundledWheel(folder)).toBeUndefined();
    await writeFile(path.join(folder, 'pilotfish-0.1.0-py3-none-any.whl'), '');
    expect(await bundledWheel(folder)).toBe(path.join(folder, 'pilotfish-0.1.0-py3-none-any.whl'));
  });
});

it('Python 3.11 is the oldest supported version', () => {
  expect([isNewEnough(3, 10), isNewEnough(3, 11), isNewEnough(3, 14), isNewEnough(2, 7)]).toEqual([
    false,
    true,
    true,
    false,
  ]);
});
