/** One session in two windows, each with its own server. */

import assert from 'node:assert/strict';
import { Workbench } from './support/browser.ts';
import { story } from './support/story.ts';

story('two windows', {}, (step) => {
  let second: Workbench;

  step('the second window follows a turn that runs in the first one', async (world) => {
    const { workbench, provider, browser, vscode, folder } = world;
    await workbench.open(folder);
    await workbench.showChat();
    await provider.hold();
    await provider.script({ parts: [{ text: 'Written in the first ' }, { gate: true }, { text: 'window.' }] });
    await workbench.ask('Write slowly');
    await workbench.chat.getByText('Written in the first').waitFor({ timeout: 60_000 });

    second = new Workbench(await browser.context.newPage(), vscode.url);
    await second.open(folder);
    await second.showChat();
    await second.status('scripted');
    await second.command('Pilotfish: Search Sessions');
    await second.quickPick('Write slowly');
    await second.chat.getByText('Written in the first').waitFor();
    await second.button('Stop').waitFor();
    await second.shot('70-other-window');

    await provider.release();
    await second.chat.getByText('Written in the first window.').waitFor();
    await second.ended(1);
    await workbench.ended(1);
  });

  step('the second window stops the next turn', async (world) => {
    const { workbench, provider } = world;
    await provider.hold();
    await provider.script({ parts: [{ text: 'Once more ' }, { gate: true }, { text: 'from here.' }] });
    await workbench.ask('Again');
    await second.chat.getByText('Once more').waitFor();
    await second.button('Stop').click();
    await workbench.ended(2);
    await second.ended(2);
    assert.equal(await second.button('Stop').count(), 0);
    await provider.release();
    await provider.script({ text: 'Now from the second.' });
    await second.ask('Me too');
    await second.chat.getByText('Now from the second.').waitFor();
    await workbench.chat.getByText('Now from the second.').waitFor();
    assert.deepEqual(
      [await second.chat.locator('.prompt-words').allTextContents(), await second.prompt.inputValue()],
      [['Write slowly', 'Again', 'Me too'], ''],
    );
  });
});
