/** Mentions in the composer: marked in the text with their cost, pages, sessions and the terminal. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';

story('mentions', { viewport: { width: 1280, height: 800 } }, (step) => {
  step('mentions are marked in the text, with their cost on hover', async (world) => {
    const { workbench } = world;
    const { chat } = workbench;
    await workbench.open(world.folder);
    await workbench.command('Pilotfish: Open Chat');
    const box = chat.locator('#prompt');
    await world.write('.env', 'TOKEN=1\n');
    await box.fill('Compare @src/auth.py with @nothing.py and @.env and this text, which goes on in the next line ');
    const marks = chat.locator('.mention-layer mark');
    await marks.nth(1).waitFor();
    assert.deepEqual(await marks.allTextContents(), ['@src/auth.py', '@.env']);
    await chat.locator('.mention-layer mark.problem', { hasText: '@.env' }).waitFor();
    await workbench.shot('86-mentions');
    const area = await marks.first().boundingBox();
    const textArea = await box.boundingBox();
    assert.ok(area && textArea);
    await box.hover({ position: { x: area.x - textArea.x + 5, y: area.y - textArea.y + 5 } });
    await chat.locator('#prompt[title^="@src/auth.py: about"]').waitFor();
    assert.match(
      (await chat.locator('#mention-costs').textContent()) ?? '',
      /@src\/auth\.py: about \d+ tokens\. @\.env: not/,
    );
    // Marks and text break lines at the same places.
    const heights = await chat
      .locator('.prompt-area')
      .evaluate((node) => [
        node.querySelector('.mention-layer')?.scrollHeight,
        node.querySelector('textarea')?.scrollHeight,
      ]);
    assert.equal(heights[0], heights[1]);
    await box.fill('');
  });

  step('another session is completed by its title', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await provider.script({ text: 'The port is 4711.' }, { text: 'It is 4711.' });
    await workbench.ask('Which port do we use?');
    await workbench.ended(1);
    await workbench.command('Pilotfish: New Session');
    await chat.getByText('What should we change?').waitFor();
    await chat.locator('#prompt').pressSequentially('Use the port of @session');
    const offer = chat.locator('.popover .offer', { hasText: 'Which port do we use?' });
    await offer.waitFor();
    await workbench.shot('87-mention-session');
    await offer.click();
    await chat.locator('.mention-layer mark', { hasText: '@ses_' }).waitFor();
    await page.keyboard.press('Enter');
    await chat.getByText('It is 4711.').waitFor();
    assert.match((await provider.requests()).at(-1) ?? '', /<attached name=\\"ses_\w+\\">.*The port is 4711\./);
  });

  step('the terminal is attached', async (world) => {
    const { workbench, provider } = world;
    const { chat, page } = workbench;
    await workbench.command('Terminal: Create New Terminal');
    await page
      .locator('.terminal-wrapper.active .xterm-cursor-layer, .terminal-wrapper.active .xterm-screen')
      .first()
      .waitFor();
    // Shell integration is there when the first prompt is decorated.
    await page
      .locator('.terminal-command-decoration')
      .first()
      .waitFor({ timeout: 30_000 })
      .catch(() => {});
    let sent = '';
    // Nothing announces that the shell is ready and integrated.
    for (let tries = 1; tries <= 10 && !/ONE TWO/.test(sent); tries += 1) {
      await page.locator('.terminal-wrapper.active').click();
      await page.keyboard.type('sleep 0.2; echo "one two" | tr a-z A-Z\n');
      await page.waitForTimeout(500);
      await provider.script({ text: `Answer ${tries}.` });
      await chat.locator('#prompt').fill('What says @terminal ?');
      await chat.locator('#prompt').press('Enter');
      await chat.getByText(`Answer ${tries}.`).waitFor();
      sent = (await provider.requests()).at(-1) ?? '';
    }
    assert.match(sent, /<attached name=\\"terminal\\"[^>]*>.*ONE TWO/);
    await workbench.shot('88-terminal');
  });
});
