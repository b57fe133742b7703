/**
 * The first run on a machine without a server: the chat shows itself, reports what is missing, and the first prompt
 * installs the server. Uses a fake Python; with PILOTFISH_E2E_INSTALL=1 it uses the machine's Python and a real package
 * index, and prints how long that took.
 */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { promisify } from 'node:util';
import type { Workbench } from './support/browser.ts';
import { writePython } from './support/python.ts';
import { story } from './support/story.ts';
import { E2E, ROOT } from './support/vscode.ts';

const real = process.env.PILOTFISH_E2E_INSTALL === '1';
const bin = mkdtempSync(path.join(tmpdir(), 'pilotfish-python-'));
const server = path.join(ROOT, '.venv/bin/pilotfish');
after(() => rmSync(bin, { recursive: true, force: true }));

const settings = {
  'pilotfish.server.command': [],
  'pilotfish.model': 'demo',
  'workbench.secondarySideBar.defaultVisibility': 'hidden',
};
const env: Record<string, string> = {
  HF_ENDPOINT: 'http://127.0.0.1:9',
  PILOTFISH_MODELS: path.join(bin, 'models'),
  ...(!real && { PATH: `${bin}:${E2E}/bin` }),
};

async function fails(workbench: Workbench, button: string, words: string, command?: string): Promise<void> {
  await workbench.button(button).click();
  const banner = workbench.chat.locator('.banner.warning', { hasText: words });
  await banner.waitFor();
  if (command !== undefined) await banner.locator('pre', { hasText: command }).waitFor();
}

story('no server yet', { settings, env }, (step) => {
  step(
    'the chat shows itself, says what the first prompt does, and is opened by the activity bar',
    async ({ workbench, folder }) => {
      await workbench.open(folder);
      await workbench.prompt.waitFor();
      await workbench.chat.locator('.banner', { hasText: 'Your first prompt installs the server' }).waitFor();
      await workbench.page.locator('.activitybar [aria-label^="Pilotfish"]').first().waitFor();
      await workbench.shot('50-no-server');
      await workbench.hideChat();
      assert.deepEqual((await workbench.seen()).toasts, []);
      await workbench.page.locator('.activitybar [aria-label^="Pilotfish"]').first().click();
      await workbench.prompt.waitFor();
      await workbench.shot('50-activity-bar');
    },
  );

  if (!real) {
    step('a missing Python, an old Python and a missing network are reported', async ({ workbench }) => {
      await fails(workbench, 'Install now', 'No Python found.', 'astral.sh/uv');
      await workbench.shot('51-no-python');
      await writePython(bin, { version: '3.8' });
      await fails(workbench, 'Try again', 'Python 3.8 is too old.', 'curl -LsSf https://astral.sh/uv/install.sh | sh');
      await writePython(bin, { version: '3.12', fails: 'NewConnectionError: no route to host' });
      await fails(workbench, 'Try again', 'Cannot reach the Python package index.');
      await workbench.shot('52-no-network');
      assert.deepEqual((await workbench.seen()).toasts, [], 'what the chat says, no toast repeats');
    });

    step('a prompt that cannot be sent stays in the composer', async ({ workbench }) => {
      await workbench.ask('Show me');
      await workbench.chat.locator('.banner.warning', { hasText: 'Cannot reach' }).waitFor();
      await workbench.chat.getByText('Cannot reach the Python package index.').nth(1).waitFor();
      assert.equal(await workbench.prompt.inputValue(), 'Show me');
      assert.equal(await workbench.chat.getByText('not running').count(), 0);
      await writePython(bin, { version: '3.12', server });
    });
  }

  step('the first prompt installs the server and is sent when it is ready', async ({ workbench, vscode }) => {
    const began = Date.now();
    await workbench.ask('Show me');
    await workbench.chat.locator('.banner progress').waitFor();
    await workbench.shot('53-installing');
    await workbench.chat.locator('.banner').waitFor({ state: 'detached', timeout: 200_000 });
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    await workbench.card.waitFor();
    await workbench.page.waitForTimeout(1000); // a new card ignores input
    await workbench.button('Allow').click();
    await workbench.ended(1);
    await workbench.chat.getByText('To work with a real model').waitFor();
    assert.equal(await workbench.prompt.inputValue(), '', 'what was sent is no draft any more');
    await workbench.shot('54-demo');
    if (real) console.log(`ready after ${seconds} s, ${await megabytes(path.join(vscode.home, 'user'))} MB`);
  });

  step('a model on this machine is prepared in the chat, which says what went wrong', async ({ workbench }) => {
    await workbench.command('Pilotfish: Select Model');
    await workbench.quickPick('Connect a model…');
    await workbench.quickPick('On this machine, nothing leaves it');
    await workbench.shot('55-local-models');
    await workbench.quickPick('qwen');
    const dialog = workbench.page.locator('.monaco-dialog-box', { hasText: 'Nothing leaves this machine' });
    await dialog.getByRole('button', { name: 'Download and use' }).click();
    if (real) await workbench.chat.locator('.banner progress').waitFor();
    // The fake Python installs nothing, and the hub is not there.
    const words = real ? 'cannot be reached' : 'A package is missing';
    await workbench.chat.locator('.banner.warning', { hasText: words }).waitFor({ timeout: 120_000 });
    await workbench.shot('56-local-failed');
    await workbench.chat.locator('.banner.warning').getByRole('button', { name: 'Dismiss' }).click();
    await workbench.chat.locator('.banner').waitFor({ state: 'detached' });
  });

  step('another window uses the finished installation', async ({ workbench }) => {
    await workbench.reload();
    await workbench.showChat();
    await workbench.ended(1);
    assert.equal(await workbench.chat.locator('.banner.info, .banner progress').count(), 0);
  });
});

async function megabytes(folder: string): Promise<number> {
  const { stdout } = await promisify(execFile)('du', ['-sm', '--', folder]);
  return Number.parseInt(stdout, 10);
}
