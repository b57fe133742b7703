/** Keys, completions and attachments in the chat view. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ToView } from '../../webview/messages.ts';
import { posted, say } from '../harness/page.ts';
import { SCENES, updates } from '../harness/scenes.ts';
import { bareView, ENDED, OPEN, STARTED } from './support/bare.ts';

const AUTH: ToView = {
  type: 'mentions',
  query: 'au',
  mentions: [{ kind: 'file', uri: 'file:///a/auth.ts', label: 'src/auth.ts', insert: 'src/auth.ts' }],
};

bareView('keys', (bare) => {
  const isFocused = () => bare.prompt().evaluate((node) => node === document.activeElement);
  /** A key event of an input method, in both forms that browsers use. */
  const compose = (key: string) =>
    bare.prompt().evaluate((node, name) => {
      const shared = { key: name, bubbles: true, cancelable: true };
      node.dispatchEvent(new KeyboardEvent('keydown', { ...shared, isComposing: true }));
      const old = new KeyboardEvent('keydown', shared);
      Object.defineProperty(old, 'keyCode', { value: 229 });
      node.dispatchEvent(old);
    }, key);

  test('1. Esc in the completion list keeps the text and the focus', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    await bare.prompt().pressSequentially('see @au');
    await say(page, [AUTH]);
    await page.locator('.popover').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.popover').waitFor({ state: 'detached' });
    assert.equal(await bare.prompt().inputValue(), 'see @au');
    assert.ok(await isFocused());
  });

  test('2. that Esc does not stop the turn', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    await bare.prompt().pressSequentially('@au');
    await say(page, [AUTH]);
    await page.locator('.popover').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.popover').waitFor({ state: 'detached' });
    assert.equal(await page.getByText('Esc again to stop').count(), 0);
    // It does not count as the first of two either.
    await page.keyboard.press('Escape');
    await page.getByText('Esc again to stop').waitFor();
    assert.deepEqual(await posted(page, 'stop'), []);
  });

  test('3. Esc during IME does nothing', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    await bare.prompt().fill('にほん');
    await compose('Escape');
    await say(page, []);
    assert.equal(await page.getByText('Esc again to stop').count(), 0);
    assert.deepEqual(await posted(page, 'stop'), []);
    assert.equal(await bare.prompt().inputValue(), 'にほん');
  });

  test('4. Enter during IME does not send', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().fill('にほん');
    await compose('Enter');
    await say(page, []);
    assert.deepEqual(await posted(page, 'send'), []);
    assert.equal(await bare.prompt().inputValue(), 'にほん');
    await bare.prompt().press('Enter');
    assert.equal((await posted(page, 'send')).length, 1);
  });

  test('38. everything works by keyboard, and the focus is visible', async () => {
    const { page } = bare;
    await bare.open(SCENES.command ?? []);
    await bare.card();
    await page.locator('body').click({ position: { x: 1, y: 1 } });
    const seen = new Set<string>();
    const look = async () => {
      const [name, visible, toolbar] = await page.evaluate(() => {
        const node = document.activeElement as HTMLElement;
        const style = getComputedStyle(node);
        const outlined = style.outlineStyle !== 'none' && style.outlineWidth !== '0px';
        const bordered = node.matches('textarea, input, select');
        return [
          node.getAttribute('aria-label') ?? node.textContent?.split('\n')[0] ?? '',
          outlined || bordered || node === document.body,
          node.closest('[role="toolbar"]') !== null,
        ] as const;
      });
      seen.add(name);
      assert.ok(visible, `no visible focus on "${name}"`);
      return toolbar;
    };
    for (let press = 0; press < 45; press += 1) {
      await page.keyboard.press('Tab');
      if (!(await look())) continue;
      for (let arrow = 0; arrow < 4; arrow += 1) {
        await page.keyboard.press('ArrowRight');
        await look();
      }
    }
    for (const name of [
      'Allow',
      'Deny…',
      'Change…',
      'More ways to allow',
      'Show card: Edit src/auth.ts?',
      'Copy prompt',
      'Edit and resend',
      'Stop',
      'Ask, or describe a change',
    ])
      assert.ok(seen.has(name), `${name} was not reached`);
  });

  test('a toolbar is one Tab stop, and its arrow keys cycle', async () => {
    const { page } = bare;
    await bare.open(SCENES.approval ?? []);
    await bare.card();
    const focused = () =>
      page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent);
    await page.getByRole('button', { name: 'Allow', exact: true }).focus();
    await page.keyboard.press('End');
    assert.equal(await focused(), 'Change…');
    await page.keyboard.press('ArrowRight');
    assert.equal(await focused(), 'Allow');
    await page.keyboard.press('Shift+Tab');
    assert.equal(await page.evaluate(() => document.activeElement?.closest('[aria-label="Answer"]') ?? null), null);
    await page.keyboard.press('Tab');
    assert.equal(await focused(), 'Allow');
  });

  test('@ completes with Enter and Tab, / only at the start', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().pressSequentially('@au');
    await say(page, [AUTH]);
    await page.keyboard.press('Enter');
    assert.equal(await bare.prompt().inputValue(), '@src/auth.ts ');
    await bare.prompt().fill('');
    await bare.prompt().pressSequentially('/rev');
    await page.keyboard.press('Tab');
    assert.equal(await bare.prompt().inputValue(), '/review ');
    await bare.prompt().fill('');
    await bare.prompt().pressSequentially('a /rev');
    assert.equal(await page.locator('.popover').count(), 0);
  });

  test('Esc twice stops, and Esc once shows a hint', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    await bare.prompt().focus();
    await page.keyboard.press('Escape');
    await page.getByText('Esc again to stop').waitFor();
    assert.deepEqual(await posted(page, 'stop'), []);
    await page.keyboard.press('Escape');
    await page.getByText('Stopping…').first().waitFor();
    assert.equal((await posted(page, 'stop')).length, 1);
  });

  test('Up in the empty text box recalls earlier prompts', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, ENDED])]);
    await bare.prompt().focus();
    const holds = (text: string) =>
      page.waitForFunction(
        (wanted) => (document.querySelector('#prompt') as HTMLTextAreaElement).value === wanted,
        text,
      );
    await page.keyboard.press('ArrowUp');
    await holds('Hi');
    await page.keyboard.press('ArrowDown');
    await holds('');
  });

  test('a long paste becomes a chip and an image a thumbnail', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().focus();
    await bare.prompt().evaluate((node) => {
      const data = new DataTransfer();
      data.setData('text/plain', 'line\n'.repeat(80));
      node.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
      const bytes = Uint8Array.from(
        atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='),
        (c) => c.charCodeAt(0),
      );
      const image = new DataTransfer();
      image.items.add(new File([bytes], 'dot.png', { type: 'image/png' }));
      node.dispatchEvent(new ClipboardEvent('paste', { clipboardData: image, bubbles: true, cancelable: true }));
    });
    await page.locator('.chips .chip', { hasText: '81 lines pasted' }).waitFor();
    await page.locator('.chips .thumb').waitFor();
    assert.equal(await bare.prompt().inputValue(), '');
    await bare.prompt().fill('See');
    await bare.prompt().press('Enter');
    assert.deepEqual(
      (await posted(page, 'send'))[0]?.prompt.map((block) => block.type),
      ['text', 'text', 'image'],
    );
  });
});
