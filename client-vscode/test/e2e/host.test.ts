/** Runs mocha tests of code without a UI inside the extension host of a real VS Code. */

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { format } from 'node:util';
import esbuild from 'esbuild';
import { openBrowser } from './support/browser.ts';
import { CLIENT, E2E, ROOT, startVscode } from './support/vscode.ts';
import { VSIX } from './support/world.ts';

test('the test suites in the extension host pass', { timeout: 180_000 }, async () => {
  const tests = path.join(E2E, 'host/index.cjs');
  await esbuild.build({
    absWorkingDir: CLIENT,
    entryPoints: ['test/host/index.ts'],
    outfile: tests,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    external: ['vscode'],
    mainFields: ['module', 'main'],
    logLevel: 'error',
  });
  const folder = path.join(E2E, 'host/workspace');
  await mkdir(folder, { recursive: true });
  const vscode = await startVscode({
    vsix: [VSIX],
    smokeTestDriver: true,
    settings: { 'pilotfish.server.command': [path.join(ROOT, '.venv/bin/pilotfish')] },
    env: { PILOTFISH_STORAGE: path.join(E2E, 'host/state'), PILOTFISH_CONFIG: path.join(E2E, 'host/config.toml') },
  });
  const browser = await openBrowser();
  try {
    const said: string[] = [];
    const ended = new Promise<number>((resolve) => {
      void browser.page.exposeFunction('codeAutomationLog', (_type: string, args: unknown[]) =>
        said.push(format(...args)),
      );
      void browser.page.exposeFunction('codeAutomationExit', (code: number) => resolve(code));
    });
    const remote = (place: string) => `vscode-remote://127.0.0.1:${vscode.port}${place}`;
    const payload = JSON.stringify([
      ['extensionDevelopmentPath', remote(path.join(E2E, 'host'))],
      ['extensionTestsPath', remote(tests)],
      ['skipWelcome', 'true'],
    ]);
    await browser.page.goto(
      `${vscode.url}/?folder=${encodeURIComponent(folder)}&payload=${encodeURIComponent(payload)}`,
    );
    const code = await ended;
    console.log(said.filter((line) => /^\s*(✔|\d+ passing|\d+ failing|\d+\))/.test(line)).join('\n'));
    assert.equal(code, 0);
  } finally {
    await browser.close();
    await vscode.stop();
  }
});
