/** Finding text in the chat view. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { posted, say } from '../harness/page.ts';
import { loaded, START, updates } from '../harness/scenes.ts';
import { bareView, chunk, ENDED, LONG, OPEN, STARTED } from './support/bare.ts';

bareView('find', (bare) => {
  const marked = (name: string) => bare.page.evaluate((one) => [...(CSS.highlights.get(one) ?? [])].map(String), name);
  const find = async (text: string) => {
    await bare.prompt().press('Control+f');
    await bare.page.locator('.find input').fill(text);
  };

  test('marks every place, also across elements, and goes from one to the next', async () => {
    await bare.open([...OPEN, updates([STARTED, chunk(`The **token** store.\n\n${LONG}A Token st`), ENDED])]);
    await find('token st');
    await bare.page.locator('.find', { hasText: '2 of 2' }).waitFor();
    assert.deepEqual(await marked('find-match'), ['token st', 'Token st']);
    assert.deepEqual(await marked('find-current'), ['Token st']);
    await bare.page.keyboard.press('Enter');
    await bare.page.locator('.find', { hasText: '1 of 2' }).waitFor();
    assert.equal(await bare.scrollTop(), 0);
    await find('nowhere');
    await bare.page.locator('.find', { hasText: 'No results' }).waitFor();
  });

  test('opens from the command', async () => {
    await bare.open([...OPEN, updates([STARTED, ENDED])]);
    await say(bare.page, [{ type: 'find' }]);
    await bare.page.locator('.find input:focus').waitFor();
  });

  test('finds what arrives later, and Escape goes back to the composer', async () => {
    await bare.open([...OPEN, updates([STARTED, chunk('One fish.')])]);
    await find('fish');
    await bare.page.locator('.find', { hasText: '1 of 1' }).waitFor();
    await say(bare.page, [updates([chunk(' Two fish.')], 3)]);
    await bare.page.locator('.find', { hasText: 'of 2' }).waitFor();
    await bare.page.keyboard.press('Escape');
    await bare.page.locator('#prompt:focus').waitFor();
    assert.deepEqual(await marked('find-match'), []);
  });

  test('loads the older part of the conversation', async () => {
    const prompt = { kind: 'prompt', id: 'i9', turnId: 't9', seq: 9, prompt: [{ type: 'text', text: 'New' }] } as const;
    await bare.open([...START, loaded([{ ...prompt, prompt: [...prompt.prompt] }], { hasMore: true })]);
    await find('old');
    assert.deepEqual(await posted(bare.page, 'older'), [{ type: 'older', before: 'i9' }]);
    const old = { ...prompt, id: 'i1', turnId: 't1', seq: 1, prompt: [{ type: 'text' as const, text: 'Old' }] };
    await say(bare.page, [{ type: 'older', sessionId: 's1', items: [old], hasMore: false }]);
    await bare.page.locator('.find', { hasText: '1 of 1' }).waitFor();
  });
});
