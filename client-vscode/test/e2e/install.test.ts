/**
 * The first run on a machine without a server: the extension offers the installation, reports what is missing, and
 * installs the server. Uses a fake Python; with PILOTFISH_E2E_INSTALL=1 it uses the machine's Python and a real package
 * index.
 */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import type { Workbench } from './support/browser.ts';
import { writePython } from './support/python.ts';
import { story } from './support/story.ts';
import { E2E, ROOT } from './support/vscode.ts';

const real = process.env.PILOTFISH_E2E_INSTALL === '1';
const bin = mkdtempSync(path.join(tmpdir(), 'pilotfish-python-'));
const server = path.join(ROOT, '.venv/bin/pilotfish');
after(() => rmSync(bin, { recursive: true, force: true }));

async function install(workbench: Workbench, words: string): Promise<void> {
  await workbench.button('Install the server').click();
  await workbench.chat.locator('.banner', { hasText: words }).waitFor();
}

const settings = { 'pilotfish.server.command': [], 'pilotfish.model': 'demo' };
const env: Record<string, string> = real ? {} : { PATH: `${bin}:${E2E}/bin` };

story('no server yet', { settings, env }, (step) => {
  step(
    'the chat shows that there is no server, and the installation is offered once',
    async ({ workbench, folder }) => {
      await workbench.open(folder);
      await workbench.showChat();
      await workbench.chat.locator('.banner', { hasText: 'No Pilotfish server found.' }).waitFor();
      await workbench.restingToast('Pilotfish needs its server.');
      await workbench.shot('50-no-server');
      await workbench.reload();
      await workbench.chat.locator('.banner', { hasText: 'No Pilotfish server found.' }).waitFor();
      assert.deepEqual((await workbench.seen()).toasts, []);
    },
  );

  if (!real) {
    step('a missing Python, an old Python and a missing network are reported', async ({ workbench }) => {
      await install(workbench, 'No Python found. Pilotfish needs Python 3.11 or newer on the PATH.');
      await workbench.shot('51-no-python');
      await writePython(bin, { version: '3.8' });
      await install(workbench, 'Python 3.8 is too old. Pilotfish needs Python 3.11 or newer.');
      await writePython(bin, { version: '3.12', fails: 'NewConnectionError: no route to host' });
      await install(workbench, 'Cannot reach the Python package index. Check the network or proxy and try again.');
      await workbench.shot('52-no-network');
      const errors = workbench.toasts.filter({ has: workbench.page.locator('.codicon-error') });
      assert.equal(await errors.count(), 0, 'what the chat says, no toast repeats');
      await writePython(bin, { version: '3.12', server });
    });
  }

  step('the server is installed from the wheel in the extension and answers', async ({ workbench }) => {
    await workbench.button('Install the server').click();
    await workbench.chat.locator('.banner').waitFor({ state: 'detached', timeout: 200_000 });
    await workbench.chat.getByText('No model is connected.').waitFor();
    await workbench.shot('53-installed');
    await workbench.ask('Show me');
    await workbench.ended(1);
    await workbench.chat.getByText('To work with a real model').waitFor();
    await workbench.shot('54-demo');
  });
});
