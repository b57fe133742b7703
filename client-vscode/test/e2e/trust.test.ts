/** An untrusted folder: Pilotfish only reads and explains until the folder is trusted, without a reload. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';
import { AUTH } from './support/world.ts';

const settings = {
  'security.workspace.trust.enabled': true,
  'security.workspace.trust.startupPrompt': 'never',
  'security.workspace.trust.banner': 'never',
};
const EDIT = {
  name: 'update_file',
  args: { path: 'src/auth.py', edits: [{ old_string: 'if token:', new_string: 'if token and token.valid:' }] },
};
const COMMAND = { name: 'bash', args: { command: 'touch made.txt' } };

story('a folder that is not trusted', { settings, trust: true }, (step) => {
  step('the chat shows that it can only read', async ({ workbench, folder }) => {
    await workbench.open(folder);
    await workbench.openFile('auth.py');
    await workbench.showChat();
    await workbench.chat
      .getByText('Restricted Mode: Pilotfish can read files but cannot change or run anything.')
      .waitFor();
    await workbench.shot('60-restricted');
  });

  step('edits and commands are rejected without an approval, and the model receives the reason', async (world) => {
    const { workbench, provider } = world;
    await provider.script({ calls: [EDIT, COMMAND] }, { text: 'I may only read here.' });
    await workbench.ask('Fix the login check and make a file');
    await workbench.ended(1);
    assert.equal(await workbench.chat.locator('.card.approval').count(), 0);
    assert.equal(await workbench.chat.locator('.call.denied').count(), 2);
    const facts = await workbench.chat.locator('.receipt .facts').textContent();
    assert.doesNotMatch(facts ?? '', /asked|by rule/, 'what was refused is no permission');
    assert.equal(await world.read('src/auth.py'), AUTH);
    await assert.rejects(world.read('made.txt'), { code: 'ENOENT' });
    assert.match((await provider.requests()).at(-1) ?? '', /not trusted/);
    await workbench.shot('61-restricted-refused');
  });

  step('reading still works', async ({ workbench, provider }) => {
    await provider.script({ calls: [{ name: 'read_file', args: { path: 'README.md' } }] }, { text: 'A small shop.' });
    await workbench.ask('What is this?');
    await workbench.ended(2);
    await workbench.chat.getByText('Read README.md').waitFor();
    assert.match((await provider.requests()).at(-1) ?? '', /A small shop/);
  });

  step('trusting the folder enables edits in the same window and session', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await workbench.button('Trust…').click();
    const editor = page.locator('.workspace-trust-editor');
    await editor.getByRole('button', { name: 'Trust', exact: true }).click();
    await page.locator('.monaco-modal-editor-block .codicon-close').first().click();
    await editor.waitFor({ state: 'detached' });
    await chat.locator('.composer-hint').waitFor({ state: 'detached' });
    await workbench.shot('62-trusted');
    await provider.script({ calls: [EDIT] }, { text: 'Fixed.' });
    await workbench.ask('Now fix it');
    await workbench.card.waitFor();
    await workbench.button('Allow').click();
    await workbench.ended(3);
    assert.match(await world.read('src/auth.py'), /if token and token\.valid:/);
  });
});
