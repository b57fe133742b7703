/** How a user learns what happened while nobody looked, in a real VS Code. */

import assert from 'node:assert/strict';
import { Workbench } from './support/browser.ts';
import { held } from './support/provider.ts';
import { story } from './support/story.ts';

const WRITE = { name: 'write_file', args: { path: 'NOTES.md', content: 'One note.\n' } };

story('signals', { settings: { 'pilotfish.notifyFinished': true } }, (step) => {
  step('a turn that ends while the chat is hidden is unread and told with its result', async (world) => {
    const { workbench, provider, folder } = world;
    await workbench.open(folder);
    await workbench.showChat();
    await provider.hold();
    await provider.script(held({ text: 'The shop has **one** module.' }));
    await workbench.ask('Describe the shop');
    await workbench.chat.locator('.working').waitFor();
    await workbench.hideChat();
    await provider.release();
    await workbench.toasts.filter({ hasText: 'Describe the shop: The shop has one module.' }).waitFor();
    await workbench.status('1 finished');
    await workbench.shot('signals-finished');
    await workbench.toasts.getByRole('button', { name: 'Show' }).click();
    await workbench.ended(1);
    await workbench.status('Ask first');
  });

  step("the agent's own question is waited for like an approval", async ({ workbench, provider }) => {
    await provider.script(
      { calls: [{ name: 'ask_user', args: { question: 'Which colour?', options: ['Red', 'Blue'] } }] },
      { text: 'Red it is.' },
    );
    await workbench.ask('Paint it');
    await workbench.status('1 waiting');
    await workbench.chat.getByRole('button', { name: 'Red' }).click();
    await workbench.ended(2);
    await workbench.status('Ask first');
  });

  step('an approval is asked again after the window was reloaded, and the turn goes on', async (world) => {
    const { workbench, provider, read } = world;
    await provider.script({ calls: [WRITE] }, { text: 'Written.' });
    await workbench.ask('Write a note');
    await workbench.card.waitFor();
    await workbench.reload();
    await workbench.card.waitFor({ timeout: 60_000 });
    await workbench.shot('signals-reloaded');
    await workbench.card.getByRole('button', { name: 'Allow', exact: true }).first().click();
    await workbench.ended(3);
    assert.equal(await read('NOTES.md'), 'One note.\n');
    assert.equal(await workbench.chat.getByText('Stopped.').count(), 0);
  });

  step('a stream that a reload cut off says so, and Continue goes on', async ({ workbench, provider }) => {
    await provider.hold();
    await provider.script({ parts: [{ text: 'The first half ' }, { gate: true }, { text: 'is lost.' }] });
    await workbench.ask('Tell me a story');
    await workbench.chat.getByText('The first half').waitFor();
    await workbench.reload();
    await workbench.chat.getByText('Interrupted by a window reload').waitFor({ timeout: 60_000 });
    assert.equal(await workbench.chat.getByText('Stopped.').count(), 0);
    await workbench.shot('signals-interrupted');
    await provider.release();
    await provider.script({ text: 'and the second half.' });
    await workbench.chat.getByRole('button', { name: 'Continue' }).click();
    await workbench.chat.getByText('and the second half.').waitFor();
  });

  step('a session that another window starts appears in the list', async (world) => {
    const { workbench, provider, browser, vscode, folder } = world;
    await workbench.page.locator('.pane-header', { hasText: 'Sessions' }).first().click();
    const second = new Workbench(await browser.context.newPage(), vscode.url);
    await second.open(folder);
    await second.showChat();
    await second.status('scripted');
    // A session with turns is shown first, so that the empty chat is seen to come.
    await second.command('Pilotfish: Search Sessions');
    await second.quickPick('Describe the shop');
    await second.chat.getByText('and the second half.').waitFor();
    await second.command('Pilotfish: New Session');
    await second.chat.getByText('What should we change?').waitFor();
    await provider.script({ text: 'Hello from here.' });
    await second.ask('From the other window');
    await second.chat.getByText('Hello from here.').waitFor();
    await workbench.page.bringToFront();
    await workbench.page.locator('.monaco-list-row', { hasText: 'From the other window' }).waitFor();
  });
});
