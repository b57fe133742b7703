/** VS Code's language models as models of Pilotfish, with an extension that provides a scripted one. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { promisify } from 'node:util';
import { story } from './support/story.ts';
import { CLIENT, E2E } from './support/vscode.ts';

const place = mkdtempSync(path.join(tmpdir(), 'pilotfish-lm-'));
const log = path.join(place, 'log.txt');
const vsix = path.join(place, 'model.vsix');
writeFileSync(log, '');
after(() => rmSync(place, { recursive: true, force: true }));

await promisify(execFile)(
  path.join(E2E, 'bin/node'),
  [
    path.join(CLIENT, 'node_modules/@vscode/vsce/vsce'),
    ...['package', '--allow-missing-repository', '--skip-license', '--no-dependencies', '--out', vsix],
  ],
  { cwd: path.join(import.meta.dirname, 'language-model') },
);

const settings = { 'pilotfish.model': 'demo', 'pilotfish.baseUrl': '', 'chat.disableAIFeatures': false };

story('language models', { settings, env: { LM_LOG: log }, extensions: [vsix] }, (step) => {
  step('VS Code’s models are connected without a key', async ({ workbench, folder }) => {
    await workbench.open(folder);
    await workbench.showChat();
    await workbench.command('Pilotfish: Select Model');
    await workbench.page.locator('.quick-input-widget input').first().fill('Connect a model');
    await workbench.quickPick('Connect a model');
    await workbench.page
      .locator('.quick-input-list .monaco-list-row', { hasText: 'VS Code’s language models' })
      .waitFor();
    await workbench.shot('models-connect');
    await workbench.quickPick('VS Code’s language models');
    await workbench.quickPick('Parrot');
    await workbench.chat.getByText('Parrot').first().waitFor();
  });

  step('a turn with a tool call goes through the extension that provides the model', async ({ workbench }) => {
    await workbench.ask('What is this project?');
    await workbench.ended(1);
    await workbench.chat.getByText('It is a shop.').waitFor();
    await workbench.shot('models-answer');
    assert.deepEqual(
      notes().map((line) => line.replace(/\d+/, 'n')),
      ['asked with n messages, read_file: true', 'asked with n messages, read_file: true'],
    );
  });

  step('stop ends the request in the extension that provides the model', async ({ workbench }) => {
    await workbench.ask('Count');
    await workbench.chat.getByText('One two three').waitFor();
    await workbench.button('Stop').click();
    await workbench.chat.locator('.ending', { hasText: 'Stopped.' }).waitFor();
    for (let attempt = 0; !notes().includes('stopped') && attempt < 100; attempt += 1)
      await new Promise((later) => setTimeout(later, 100));
    assert.ok(notes().includes('stopped'));
  });

  step('an error is shown in the words of the provider', async ({ workbench }) => {
    await workbench.ask('Fail');
    await workbench.chat.locator('summary', { hasText: 'Details' }).last().click();
    await workbench.chat.getByText('The parrot has used its quota of nuts').first().waitFor();
    await workbench.shot('models-error');
  });
});

function notes(): string[] {
  return readFileSync(log, 'utf8').split('\n').filter(Boolean);
}
