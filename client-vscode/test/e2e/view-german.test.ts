/** The chat view in German, whose words are longer, in the narrowest side bar. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import type { ToView } from '../../webview/messages.ts';
import { say } from '../harness/page.ts';
import { SCENES } from '../harness/scenes.ts';
import { bareView, outsideTheView, scrollingSideways } from './support/bare.ts';
import { CLIENT, SHOTS } from './support/vscode.ts';

const WORDS = JSON.parse(readFileSync(path.join(CLIENT, 'l10n/bundle.l10n.de.json'), 'utf8')) as Record<string, string>;

const inGerman = (scene: readonly ToView[]): ToView[] =>
  scene.map((message) => (message.type === 'hello' ? { ...message, words: WORDS } : message));

bareView('German', (bare) => {
  test('in every state, nothing leaves a view of 280 px', async () => {
    const { page } = bare;
    await page.setViewportSize({ width: 280, height: 700 });
    for (const [name, scene] of Object.entries(SCENES)) {
      await bare.open(inGerman(scene));
      await say(page, []);
      assert.deepEqual(await scrollingSideways(page), [], name);
      assert.deepEqual(await outsideTheView(page), [], name);
    }
  });

  test('no label of a button is cut off', async () => {
    const { page } = bare;
    await page.setViewportSize({ width: 280, height: 700 });
    for (const [name, scene] of Object.entries(SCENES)) {
      await bare.open(inGerman(scene));
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll<HTMLElement>('.card button, .composer button, .notice button')]
          .filter((node) => node.offsetParent !== null && getComputedStyle(node).textOverflow !== 'ellipsis')
          .filter((node) => node.scrollWidth > node.clientWidth + 1)
          .map((node) => node.textContent),
      );
      assert.deepEqual(cut, [], name);
    }
  });

  test('an approval is asked in German', async () => {
    const { page } = bare;
    await page.setViewportSize({ width: 280, height: 700 });
    await bare.open(inGerman(SCENES.approval ?? []));
    const card = await bare.card();
    await card.getByRole('button', { name: 'Erlauben', exact: true }).waitFor();
    await card.getByRole('button', { name: 'Ablehnen…' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Allow', exact: true }).count(), 0);
    await page.screenshot({ path: path.join(SHOTS, 'german.png') });
  });
});
