/** What goes with a prompt: what the user looks at, and mentions. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';

story('the context', { viewport: { width: 1280, height: 800 } }, (step) => {
  step('a prompt carries the file, the cursor, the selection and the visible lines', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await workbench.open(world.folder);
    await workbench.openFile('auth.py');
    await workbench.line('class Token').click();
    await workbench.command('Pilotfish: Open Chat');
    const chip = chat.locator('.chip.context .chip-label');
    await chip.filter({ hasText: /^auth\.py$/ }).waitFor();
    await provider.script({ text: 'Seen.' }, { text: 'Seen again.' }, { text: 'Not seen.' }, { text: 'Back.' });
    await workbench.ask('One');
    await workbench.ended(1);
    const first = (await provider.requests()).at(-1) ?? '';
    assert.match(first, /Open in the editor: src\/auth\.py \(active\)/);
    assert.match(first, /<active_file path=\\"src\/auth\.py\\" cursor=\\"6:\d+\\" visible=\\"1-\d+\\">/);
    await workbench.line('def is_logged_in').click();
    await page.keyboard.press('Home');
    for (let line = 0; line < 3; line += 1) await page.keyboard.press('Shift+ArrowDown');
    await chip.filter({ hasText: 'auth.py:12–14' }).waitFor();
    await workbench.shot('70-context-chip');
    await workbench.ask('Two');
    await workbench.ended(2);
    assert.match(
      (await provider.requests()).at(-1) ?? '',
      /<active_file path=\\"src\/auth\.py\\" selected=\\"12-14\\"/,
    );
  });

  step('one click drops it, and another one brings it back', async (world) => {
    const { workbench, provider } = world;
    const { chat } = workbench;
    const asked = async () => (await provider.requests()).at(-1)?.split('Two').at(-1) ?? '';
    await chat.locator('.chip.context').click();
    await chat.locator('.chip.context.dropped').waitFor();
    await workbench.shot('71-context-dropped');
    await workbench.ask('Three');
    await workbench.ended(3);
    assert.doesNotMatch(await asked(), /active_file|Git:/);
    await chat.locator('.chip.context').click();
    await chat.locator('.chip.context:not(.dropped)').waitFor();
    await workbench.ask('Four');
    await workbench.ended(4);
    assert.match(await asked(), /<active_file/);
  });

  step('the problems of the file go with it', async (world) => {
    const { workbench, provider } = world;
    await workbench.openFile('settings.json');
    await workbench.page.locator('.squiggly-warning').first().waitFor();
    await workbench.chat.locator('.chip.context', { hasText: 'settings.json' }).waitFor();
    await provider.script({ text: 'Seen.' });
    await workbench.ask('Five');
    await workbench.ended(5);
    assert.match((await provider.requests()).at(-1) ?? '', /warning \[json\w*\] in line \d: Duplicate object key/);
  });
});
