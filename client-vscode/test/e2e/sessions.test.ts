/** Titles, search and the user's own commands, in a real VS Code. */

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { story } from './support/story.ts';

story('sessions', { settings: { 'pilotfish.titles': true }, trust: true }, (step) => {
  step('the model names the session, in the header and in the list', async ({ workbench, provider, folder }) => {
    await workbench.open(folder);
    await workbench.showChat();
    await provider.script({ text: 'A guillemot is a sea bird.' }, { text: 'Sea birds' });
    await workbench.ask('Please tell me, in one sentence, what a guillemot is');
    await workbench.ended(1);
    await workbench.page.locator('.pane-header', { hasText: 'Sea birds' }).first().waitFor();
    await workbench.shot('session-title');
  });

  step('search shows where the words were found', async ({ workbench }) => {
    await workbench.command('Pilotfish: Search Sessions');
    await workbench.page.locator('.quick-input-widget input').fill('guillemot');
    const row = workbench.page.locator('.quick-input-list .monaco-list-row', { hasText: 'Sea birds' });
    await row.locator('.quick-input-list-label-meta', { hasText: 'guillemot is' }).waitFor();
    await workbench.page.keyboard.press('Escape');
  });

  step('a command that the user has just written is offered first', async ({ workbench, folder, write }) => {
    await mkdir(path.join(folder, '.pilotfish/commands'), { recursive: true });
    await write('.pilotfish/commands/zoo.md', 'Name the animals in $ARGUMENTS.\n');
    await workbench.prompt.fill('');
    await workbench.prompt.pressSequentially('/');
    const first = workbench.chat.locator('.offer').first();
    await first.filter({ hasText: 'zoo' }).waitFor();
    assert.ok((await workbench.chat.locator('.offer').count()) > 8, 'and the built-in ones follow');
  });
});
