/** Streaming, following and reading in the chat view. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Item } from '../../src/protocol.gen.ts';
import { posted, say } from '../harness/page.ts';
import { call, loaded, START, updates } from '../harness/scenes.ts';
import { bareView, chunk, ENDED, LONG, OPEN, STARTED } from './support/bare.ts';

bareView('streaming', (bare) => {
  test('21. a thousand tokens do not move a transcript that is scrolled up', async () => {
    await bare.open([...OPEN, updates([STARTED, chunk(LONG)])]);
    await bare.wheel(-600);
    const top = await bare.scrollTop();
    for (let batch = 0; batch < 20; batch += 1) {
      const list = Array.from({ length: 50 }, (_, n) => chunk(`word${n} `));
      await say(bare.page, [updates(list, 3 + batch * 50)]);
      assert.equal(await bare.scrollTop(), top);
    }
    await bare.page.getByText('word49').first().waitFor({ state: 'attached' });
  });

  test('22. the end of the turn does not move it either', async () => {
    await bare.open([...OPEN, updates([STARTED, chunk(LONG)])]);
    await bare.wheel(-600);
    const top = await bare.scrollTop();
    await say(bare.page, [updates([ENDED], 3)]);
    await bare.page.locator('.receipt').waitFor({ state: 'attached' });
    assert.equal(await bare.scrollTop(), top);
  });

  test('23. at the end it follows without bouncing', async () => {
    await bare.open([...OPEN, updates([STARTED, chunk(LONG)])]);
    assert.ok((await bare.fromEnd()) <= 1);
    // In every frame of the stream, the distance from the end is zero, and the page never scrolls up.
    const seen = bare.page.evaluate(async () => {
      const box = document.querySelector('.transcript');
      if (!box) throw new Error('no transcript');
      const frames: { top: number; away: number }[] = [];
      while (!document.querySelector('.receipt')) {
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        // Not at the end of the turn, when the summary replaces the progress line.
        if (document.querySelector('.receipt')) break;
        frames.push({ top: box.scrollTop, away: box.scrollHeight - box.clientHeight - box.scrollTop });
      }
      return frames;
    });
    for (let n = 0; n < 30; n += 1) await say(bare.page, [updates([chunk(`${'more words '.repeat(20)}\n\n`)], 3 + n)]);
    await say(bare.page, [updates([ENDED], 33)]);
    const frames = await seen;
    assert.ok(frames.length > 30);
    assert.deepEqual(
      frames.filter(({ away }) => away > 1),
      [],
    );
    assert.deepEqual(
      frames.filter(({ top }, n) => n > 0 && top < (frames[n - 1]?.top ?? 0)),
      [],
    );
  });

  test('24. the “Latest” button returns to the end and resumes following', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, chunk(LONG)])]);
    await bare.wheel(-500);
    await page.locator('.pill', { hasText: /^.?Latest$/u }).waitFor();
    const step = call('c1', 'Run ls', 'execute', 'completed');
    await say(page, [updates([{ kind: 'tool_call', call: step }, chunk('And so on.', 'm2')], 3)]);
    await page.locator('.pill', { hasText: 'Latest · 2 new' }).click();
    await page.locator('.pill').waitFor({ state: 'detached' });
    assert.ok((await bare.fromEnd()) <= 1);
    await say(page, [updates([chunk(LONG, 'm2')], 5)]);
    assert.ok((await bare.fromEnd()) <= 1);
    assert.equal(await page.locator('.pill').count(), 0);
  });

  test('25. a selection in the last block survives streaming', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, chunk('The quick brown fox')])]);
    await page.evaluate(() => {
      const text = document.querySelector('.markdown .block p')?.firstChild;
      if (!text) throw new Error('no text');
      const range = document.createRange();
      range.setStart(text, 4);
      range.setEnd(text, 9);
      document.getSelection()?.addRange(range);
    });
    await say(page, [updates([chunk(' jumps')], 3), updates([chunk(' over')], 4)]);
    assert.equal(await page.evaluate(() => document.getSelection()?.toString()), 'quick');
    await page.evaluate(() => document.getSelection()?.removeAllRanges());
    await page.getByText('The quick brown fox jumps over').waitFor();
  });

  test('26. finished blocks keep their DOM nodes', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, chunk('One.\n\nTwo.\n\nThr')])]);
    await page.evaluate(() => {
      for (const node of document.querySelectorAll('.markdown .block, .markdown .block p'))
        (node as HTMLElement).dataset.mine = 'yes';
    });
    await say(page, [updates([chunk('ee.\n\nFour.')], 3), updates([ENDED], 4)]);
    assert.deepEqual(await page.locator('.markdown .block p[data-mine]').allTextContents(), ['One.', 'Two.']);
    assert.equal(await page.locator('.markdown .block').count(), 4);
  });

  test('27. code keeps its syntax highlighting', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, chunk('```ts\nconst a = 1;\n')])]);
    let coloured = 0;
    for (let n = 0; n < 12; n += 1) {
      await say(page, [updates([chunk(n % 3 === 2 ? `const b${n} = "x";\n` : `// part ${n} `)], 3 + n)]);
      const now = await page.locator('.code [class^="hljs-"]').count();
      assert.ok(now >= coloured && now > 0, `${coloured} → ${now}`);
      coloured = now;
    }
    await say(page, [updates([chunk('```\n\nAnd prose.')], 15), updates([ENDED], 16)]);
    assert.ok((await page.locator('.code [class^="hljs-"]').count()) >= coloured);
  });

  test('29. loading older rows keeps the visible row in place', async () => {
    const { page } = bare;
    const item = (n: number): Item => ({
      kind: 'message',
      id: `i${n}`,
      turnId: `t${Math.floor(n / 10)}`,
      seq: 0,
      text: `Row ${n}`,
    });
    const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => item(from + n));
    await bare.open([...START, loaded(range(400, 600), { hasMore: true })]);
    await page.locator('.transcript').focus();
    const older = async () => (await posted(page, 'older'))[0]?.before;
    for (let press = 0; press < 40 && (await older()) === undefined; press += 1) {
      await page.keyboard.press('Home');
      await say(page, []);
    }
    assert.equal(await older(), 'i400');
    await bare.rest();
    await page.locator('.transcript').evaluate((box) => {
      box.scrollTop = 120;
    });
    await bare.rest();
    const row = page.locator('[data-row="i404"]');
    const top = (await row.boundingBox())?.y ?? 0;
    await say(page, [{ type: 'older', sessionId: 's1', items: range(200, 400), hasMore: false }]);
    await page.locator('[data-row="i385"]').waitFor({ state: 'attached' });
    await page.waitForFunction(
      (y) => Math.abs((document.querySelector('[data-row="i404"]')?.getBoundingClientRect().y ?? 1e6) - y) <= 1,
      top,
    );
  });

  test('a row that the user opens stays in place while the answer is streamed', async () => {
    const { page } = bare;
    const result = { text: 'line\n'.repeat(30), truncated: false, bytes: 150 };
    const ran = call('c1', 'Run ls', 'execute', 'completed', { result });
    await bare.open([...OPEN, updates([STARTED, chunk(LONG), { kind: 'tool_call', call: ran }])]);
    const head = page.locator('.call .row-head');
    await head.scrollIntoViewIfNeeded();
    const y = (await head.boundingBox())?.y;
    await head.click();
    await page.locator('.call .output').waitFor();
    await say(page, [updates([chunk(LONG, 'm2')], 4)]);
    assert.equal((await head.boundingBox())?.y, y);
  });

  test('the scroll position is restored after a reload', async () => {
    const { page } = bare;
    const turns = [1, 2, 3].flatMap((n): Item[] => [
      { kind: 'message', id: `m${n}`, turnId: `t${n}`, seq: 0, text: LONG },
      { kind: 'message', id: `n${n}`, turnId: `t${n}`, seq: 0, text: `Mark ${n}` },
    ]);
    await bare.open([...START, loaded(turns)]);
    await bare.wheel(-900);
    const mark = () => page.getByText('Mark 2').evaluate((node) => Math.round(node.getBoundingClientRect().y));
    const y = await mark();
    await page.waitForFunction(() => window.posted.some((one) => one.type === 'draft' && one.draft.scroll));
    const draft = (await posted(page, 'draft')).at(-1)?.draft;
    const again = loaded(turns);
    assert.ok(draft && again.type === 'loaded');
    await bare.open([...START, { ...again, draft }]);
    await page.waitForFunction((wanted) => {
      const found = [...document.querySelectorAll('.markdown p')].find((node) => node.textContent === 'Mark 2');
      return found && Math.abs(found.getBoundingClientRect().y - wanted) <= 2;
    }, y);
  });
});
