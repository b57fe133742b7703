import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CancellationToken, LogOutputChannel } from 'vscode';
import { bundledWheel, InstallFailed, install, ownServer } from '../../../src/server/installServer.ts';
import { BackOff } from '../../../src/server/restartBackoff.ts';
import { writePython } from '../../e2e/support/python.ts';

const log = { info: () => {}, error: () => {} } as unknown as LogOutputChannel;
const never = { isCancellationRequested: false, onCancellationRequested: () => {} } as unknown as CancellationToken;
const PATH = process.env.PATH;

describe('the server in an environment of its own', () => {
  let folder: string;
  let storage: string;
  let steps: string[];
  const run = (token = never) => install('/wheels/pilotfish.whl', storage, (words) => steps.push(words), log, token);
  const refused = () =>
    run().then(
      () => 'installed',
      (error) => (error instanceof InstallFailed ? error.message : `not in words: ${error}`),
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

  it('says that there is no Python', async () => {
    expect(await refused()).toBe('No Python found. Pilotfish needs Python 3.11 or newer on the PATH.');
  });

  it('says which Python is too old, and which would do', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.8' });
    expect(await refused()).toBe('Python 3.8 is too old. Pilotfish needs Python 3.11 or newer.');
  });

  it('takes a newer Python that stands beside an old one', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.8' });
    await writePython(path.join(folder, 'bin'), { version: '3.12', name: 'python3.12' });
    expect(await refused()).toBe('installed');
  });

  it('says that the package index cannot be reached, and leaves nothing half made', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'NewConnectionError: no route to host' });
    expect(await refused()).toBe("Can't reach the Python package index. Check the network or proxy, then try again.");
    await expect(stat(path.join(storage, 'server'))).rejects.toThrow('ENOENT');
  });

  it('says that this Python cannot make environments', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', venv: 'No module named ensurepip' });
    expect(await refused()).toBe(
      'This Python cannot make environments. Install its venv package (python3-venv), then try again.',
    );
  });

  it('says that the disk is full, and otherwise what pip said last', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'OSError: No space left on device' });
    expect(await refused()).toBe('The disk is full.');
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'ERROR: a wheel is broken' });
    expect(await refused()).toBe('The server could not be installed: ERROR: a wheel is broken');
  });

  it('says when the user stopped it', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', fails: 'Killed' });
    const stopped = {
      isCancellationRequested: true,
      onCancellationRequested: () => {},
    } as unknown as CancellationToken;
    await expect(run(stopped)).rejects.toThrow('The installation was stopped.');
  });

  it('is there when it was installed, from the wheel that came with the extension', async () => {
    await writePython(path.join(folder, 'bin'), { version: '3.12', server: '/usr/bin/true' });
    await run();
    expect(steps).toEqual(['Looking for Python…', 'Making an environment…', 'Installing the server…']);
    expect((await stat(ownServer(storage))).isFile()).toBe(true);
    expect(await readFile(path.join(storage, 'server/asked'), 'utf8')).toMatch(/\/wheels\/pilotfish\.whl\n$/);
  });

  it('finds that wheel among the extension’s files', async () => {
    expect(await bundledWheel(folder)).toBeUndefined();
    await writeFile(path.join(folder, 'pilotfish-0.1.0-py3-none-any.whl'), '');
    expect(await bundledWheel(folder)).toBe(path.join(folder, 'pilotfish-0.1.0-py3-none-any.whl'));
  });
});

describe('after a crash', () => {
  it('each start waits longer, and the sixth fall in a row is the last', () => {
    const backOff = new BackOff();
    expect([1, 2, 3, 4, 5, 6].map((at) => backOff.fell(at))).toEqual([0, 1000, 3000, 10_000, 30_000, undefined]);
    expect(backOff.count).toBe(6);
  });

  it('a server that stayed up for two minutes begins anew', () => {
    const backOff = new BackOff();
    backOff.fell(0);
    backOff.fell(1);
    expect(backOff.fell(120_001)).toBe(0);
  });

  it('a start that the user asked for forgives everything', () => {
    const backOff = new BackOff();
    for (let at = 0; at < 6; at += 1) backOff.fell(at);
    backOff.forgive();
    expect(backOff.fell(7)).toBe(0);
  });
});
