/** Markdown beyond plain text in the chat view: tables, diffs, formulas, diagrams, footnotes. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { posted, say } from '../harness/page.ts';
import { EDIT_APPROVAL, RICH, SCENES, updates } from '../harness/scenes.ts';
import { bareView, chunk, ENDED, OPEN, STARTED, WAITING } from './support/bare.ts';

bareView('rich text', (bare) => {
  const open = () => bare.open(SCENES.rich ?? []);

  test('a wide table scrolls sideways and breaks no word', async () => {
    const wide = `| ${Array.from({ length: 9 }, (_, n) => `configuration${n}`).join(' | ')} |\n|${' - |'.repeat(9)}\n`;
    await bare.page.setViewportSize({ width: 280, height: 600 });
    await bare.open([...OPEN, updates([STARTED, chunk(wide), ENDED])]);
    const cells = await bare.page
      .locator('.block th')
      .evaluateAll((all) => all.map((cell) => Math.round(cell.getBoundingClientRect().height)));
    assert.deepEqual(new Set(cells).size, 1);
    assert.ok((cells[0] ?? 0) < 30, 'each heading is one line');
    const frame = bare.page.locator('.block .table');
    assert.ok(await frame.evaluate((node) => node.scrollWidth > node.clientWidth));
    assert.ok(await bare.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page does not');
  });

  test('a diagram is drawn when its source is complete; its source is one click away', async () => {
    const [before = '', after = ''] = RICH.split('B -->|yes|');
    await bare.open([...OPEN, updates([STARTED, chunk(before)])]);
    await bare.page.locator('.code code', { hasText: 'Valid token?' }).waitFor();
    assert.equal(await bare.page.locator('.diagram').count(), 0);
    await say(bare.page, [updates([chunk(`B -->|yes|${after}`), ENDED], 3)]);
    const image = bare.page.locator('.diagram img');
    await image.waitFor();
    await image.evaluate((node: HTMLImageElement) => node.decode());
    assert.ok(await image.evaluate((node: HTMLImageElement) => node.naturalWidth > 100));
    const block = bare.page.locator('.code', { has: image });
    await block.hover();
    await block.getByRole('button', { name: 'Show source' }).click();
    await bare.page.locator('.code pre:visible', { hasText: 'graph TD' }).waitFor();
    assert.deepEqual(await posted(bare.page, 'problem'), []);
  });

  test('a diagram that cannot be drawn stays source', async () => {
    await bare.open([...OPEN, updates([STARTED, chunk('```mermaid\ngraph TD\n  A --> --> B\n```\n'), ENDED])]);
    await bare.page.getByText('This diagram cannot be drawn').waitFor();
    assert.ok(await bare.page.locator('.code pre', { hasText: 'A --> --> B' }).isVisible());
  });

  test('formulas are rendered, and a click shows their source', async () => {
    await open();
    await bare.page.locator('.formula .katex-display').waitFor();
    const inline = bare.page.locator('p .math .katex');
    await inline.waitFor();
    assert.equal(await bare.page.locator('p .math').count(), 1, 'prices and variables are text');
    await inline.click();
    await bare.page.locator('p code.math', { hasText: 'O(n \\log n)' }).click();
    await inline.waitFor();
  });

  test('details open, and footnotes lead to their note and back', async () => {
    await open();
    await bare.page.getByText('Why the token expires').click();
    await bare.page.locator('details .nested .hljs-keyword').waitFor();
    await bare.page.locator('a.note-mark').click();
    await bare.page.locator('.footnote:focus').waitFor();
    await bare.page.locator('a.note-back').click();
    await bare.page.locator('a.note-mark:focus').waitFor();
    assert.deepEqual(await posted(bare.page, 'openLink'), []);
  });

  test('a diff has the colours of its language and line numbers', async () => {
    await bare.open([...WAITING, { type: 'approval', request: EDIT_APPROVAL }]);
    const card = await bare.card();
    const added = card.locator('.diff-line.added').first();
    assert.equal((await added.locator('.line-number').textContent())?.trim(), '1');
    await added.locator('.hljs-keyword', { hasText: 'import' }).waitFor();
    await open();
    const colours = await bare.page
      .locator('.diff-code > :is(.added, .removed)')
      .evaluateAll((all) => all.map((line) => getComputedStyle(line).backgroundColor));
    assert.deepEqual(colours, ['rgba(255, 0, 0, 0.2)', 'rgba(155, 185, 85, 0.2)']);
  });
});
