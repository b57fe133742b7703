/** Formulas and diagrams in a real VS Code, whose policy for web views is stricter than a plain page's. */

import assert from 'node:assert/strict';
import { RICH } from '../harness/scenes.ts';
import { story } from './support/story.ts';

story('rendering', {}, (step) => {
  step('a formula and a diagram are loaded on demand and drawn', async ({ workbench, provider, folder }) => {
    await workbench.open(folder);
    await workbench.showChat();
    await provider.script({ text: RICH });
    await workbench.ask('Explain the token');
    await workbench.ended(1);
    await workbench.chat.locator('.formula .katex-display').waitFor({ timeout: 30_000 });
    const image = workbench.chat.locator('.diagram img');
    await image.waitFor({ timeout: 30_000 });
    await image.evaluate((node: HTMLImageElement) => node.decode());
    assert.ok(await image.evaluate((node: HTMLImageElement) => node.naturalWidth > 100));
    await workbench.shot('rendering');
  });

  step('Ctrl+F finds in the chat', async ({ workbench }) => {
    await workbench.prompt.click();
    await workbench.page.keyboard.press('Control+f');
    await workbench.chat.locator('.find input:focus').waitFor();
    await workbench.page.keyboard.type('verifyclaims');
    await workbench.chat.locator('.find', { hasText: '1 of 1' }).waitFor();
    await workbench.page.keyboard.press('Escape');
    await workbench.chat.locator('.find').waitFor({ state: 'detached' });
  });
});
