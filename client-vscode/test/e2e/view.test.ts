/** The chat view in a bare page of the same browser: what needs no VS Code. Numbers name points of the UX checklist. */

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { Item, Update } from '../../src/protocol.gen.ts';
import type { ToView } from '../../webview/messages.ts';
import { posted, say, serve, show, type Theme } from '../harness/page.ts';
import {
  AT,
  COMMAND_APPROVAL,
  call,
  EDIT_APPROVAL,
  EDIT_CALL,
  loaded,
  SCENES,
  SESSION,
  START,
  updates,
} from '../harness/scenes.ts';
import { type Browser, openBrowser } from './support/browser.ts';

const STARTED: Update = { kind: 'turn_started', promptId: 'p1', prompt: [{ type: 'text', text: 'Hi' }] };
const USAGE = { inputTokens: 10, outputTokens: 10, cachedTokens: 0, requests: 1, toolCalls: 0 };
const ENDED: Update = { kind: 'turn_ended', stopReason: 'end_turn', usage: USAGE };
const chunk = (text: string, itemId = 'm1'): Update => ({ kind: 'agent_message_chunk', itemId, text });
const OPEN: readonly ToView[] = [...START, loaded()];
const WAITING: readonly ToView[] = [
  ...OPEN,
  updates([STARTED, { kind: 'tool_call', call: EDIT_CALL }]),
  { type: 'approval', request: EDIT_APPROVAL, at: AT },
];
const LONG = `${'A paragraph of some length, so that it fills a line or two of the side bar.\n\n'.repeat(40)}`;

describe('the chat view', () => {
  let browser: Browser;
  let server: { url: string; close(): void };
  let page: Page;
  before(async () => {
    server = await serve();
    browser = await openBrowser({ width: 400, height: 760 });
    page = browser.page;
  });
  after(async () => {
    await browser.close();
    server.close();
  });
  beforeEach(() => page.setViewportSize({ width: 400, height: 760 }));

  const open = (messages: readonly ToView[], theme: Theme = 'dark') => show(page, server.url, theme, messages);
  const prompt = () => page.locator('#prompt');
  const scrollTop = () => page.locator('.transcript').evaluate((box) => box.scrollTop);
  const fromEnd = () =>
    page.locator('.transcript').evaluate((box) => box.scrollHeight - box.clientHeight - box.scrollTop);
  const wheel = async (by: number) => {
    await page.mouse.move(200, 300);
    await page.mouse.wheel(0, by);
    await page.waitForTimeout(150);
  };

  test('1, 2: Esc in the @ popover keeps text and focus, and never stops the agent', async () => {
    await open([...OPEN, updates([STARTED])]);
    await prompt().pressSequentially('see @au');
    await say(page, [
      {
        type: 'mentions',
        query: 'au',
        mentions: [{ kind: 'file', uri: 'file:///a/auth.ts', label: 'src/auth.ts', insert: 'src/auth.ts' }],
      },
    ]);
    await page.locator('.popover').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.popover').waitFor({ state: 'detached' });
    assert.equal(await prompt().inputValue(), 'see @au');
    assert.ok(await prompt().evaluate((node) => node === document.activeElement));
    assert.equal((await posted(page, 'stop')).length, 0);
    assert.equal(await page.getByText('Esc again to stop').count(), 0);
  });

  test('@ completes by Enter and Tab, / only at the start', async () => {
    await open(OPEN);
    await prompt().pressSequentially('@au');
    await say(page, [
      {
        type: 'mentions',
        query: 'au',
        mentions: [{ kind: 'file', uri: 'file:///a/auth.ts', label: 'src/auth.ts', insert: 'src/auth.ts' }],
      },
    ]);
    await page.keyboard.press('Enter');
    assert.equal(await prompt().inputValue(), '@src/auth.ts ');
    await prompt().fill('');
    await prompt().pressSequentially('/rev');
    await page.keyboard.press('Tab');
    assert.equal(await prompt().inputValue(), '/review ');
    await prompt().fill('');
    await prompt().pressSequentially('a /rev');
    assert.equal(await page.locator('.popover').count(), 0);
  });

  test('Esc twice stops, once only says so', async () => {
    await open([...OPEN, updates([STARTED])]);
    await prompt().focus();
    await page.keyboard.press('Escape');
    await page.getByText('Esc again to stop').waitFor();
    assert.equal((await posted(page, 'stop')).length, 0);
    await page.keyboard.press('Escape');
    assert.equal((await posted(page, 'stop')).length, 1);
    await page.getByText('Stopping…').first().waitFor();
  });

  test('3, 4: while composing, Enter does not send and Esc does nothing', async () => {
    await open([...OPEN, updates([STARTED])]);
    await prompt().fill('にほん');
    await prompt().evaluate((node) => {
      for (const key of ['Enter', 'Escape'])
        node.dispatchEvent(new KeyboardEvent('keydown', { key, isComposing: true, bubbles: true, cancelable: true }));
    });
    await page.waitForTimeout(50);
    assert.equal((await posted(page, 'send')).length, 0);
    assert.equal(await page.getByText('Esc again to stop').count(), 0);
    assert.equal(await prompt().inputValue(), 'にほん');
  });

  test('5, 6, 7: a card that appears under typing is not answered, and takes no focus', async () => {
    await open([...OPEN, updates([STARTED, { kind: 'tool_call', call: EDIT_CALL }])]);
    await prompt().focus();
    await say(page, [{ type: 'approval', request: EDIT_APPROVAL, at: AT }]);
    await page.keyboard.type('y a n 1 ');
    assert.ok(await prompt().evaluate((node) => node === document.activeElement));
    await open(OPEN);
    await say(page, [
      updates([STARTED, { kind: 'tool_call', call: EDIT_CALL }]),
      { type: 'approval', request: EDIT_APPROVAL, at: AT },
    ]);
    await page.getByRole('button', { name: 'Allow', exact: true }).evaluate((node) => (node as HTMLElement).click());
    assert.equal((await posted(page, 'answer')).length, 0);
    await page.waitForTimeout(550);
    await page.getByRole('button', { name: 'Allow', exact: true }).focus();
    await page.keyboard.press('Enter');
    assert.deepEqual(await posted(page, 'answer'), [{ type: 'answer', approvalId: 'a1', optionId: 'allow_once' }]);
    await page.getByText('Allowed').waitFor();
  });

  test('9: answered elsewhere, the card is gone', async () => {
    await open(WAITING);
    await page.locator('.card.approval').waitFor();
    await say(page, [
      { type: 'resolved', resolved: { approvalId: 'a1', sessionId: 's1', optionId: 'reject', by: 'lens' } },
    ]);
    assert.equal(await page.locator('.card.approval').count(), 0);
  });

  test('15: a call that ran without a question is a row, and no signal', async () => {
    await open(OPEN);
    await say(page, [
      updates([
        STARTED,
        {
          kind: 'tool_call',
          call: call('c1', 'Run ls', 'execute', 'completed', {
            approval: { decision: 'allow', by: 'rule', reason: '', amended: false },
          }),
        },
      ]),
    ]);
    assert.equal(await page.locator('.card, .dock-line').count(), 0);
    assert.deepEqual(await posted(page, 'visibleCards'), []);
  });

  test('17: bidi characters are written out on the card', async () => {
    const command = 'echo \u202etxt.exe';
    const request = {
      ...COMMAND_APPROVAL,
      call: { ...COMMAND_APPROVAL.call, title: `Run ${command}` },
      preview: { kind: 'command' as const, command, cwd: '/', parsed: [] },
    };
    await open([
      ...OPEN,
      updates([STARTED, { kind: 'tool_call', call: request.call }]),
      { type: 'approval', request, at: AT },
    ]);
    const card = page.locator('.card.approval');
    assert.match((await card.textContent()) ?? '', /echo \\u\{202e\}txt\.exe/);
    assert.doesNotMatch((await card.textContent()) ?? '', /\u202e/);
  });

  test('18: Always… shows the rule before it is saved', async () => {
    await open(WAITING);
    await page.waitForTimeout(550);
    await page.getByRole('button', { name: 'More ways to allow' }).click();
    await page.getByRole('menuitem', { name: /Always…/ }).click();
    await page.locator('.rule-words', { hasText: 'Edits in src/**, this workspace' }).waitFor();
    assert.equal((await posted(page, 'answer')).length, 0);
    await page.getByRole('button', { name: 'Save rule and allow' }).click();
    assert.equal((await posted(page, 'answer'))[0]?.optionId, 'allow_always');
  });

  test('a command can be changed in its card', async () => {
    await open([
      ...OPEN,
      updates([STARTED, { kind: 'tool_call', call: COMMAND_APPROVAL.call }]),
      { type: 'approval', request: COMMAND_APPROVAL, at: AT },
    ]);
    await page.waitForTimeout(550);
    await page.getByRole('button', { name: 'Change…' }).click();
    await page.locator('.code-input').fill('npm test');
    await page.getByRole('button', { name: 'Allow with my changes' }).click();
    assert.deepEqual((await posted(page, 'answer'))[0]?.args, { command: 'npm test' });
  });

  test('20: Deny… sends what was written, and Esc goes back undecided', async () => {
    await open(WAITING);
    await page.waitForTimeout(550);
    await page.getByRole('button', { name: 'Deny…' }).click();
    await page.locator('.card textarea:focus').waitFor();
    await page.keyboard.press('Escape');
    assert.equal((await posted(page, 'answer')).length, 0);
    await page.getByRole('button', { name: 'Deny…' }).click();
    await page.locator('.card textarea:focus').waitFor();
    await page.keyboard.type('Use the helper');
    await page.keyboard.press('Enter');
    assert.deepEqual((await posted(page, 'answer'))[0], {
      type: 'answer',
      approvalId: 'a1',
      optionId: 'reject',
      feedback: 'Use the helper',
    });
  });

  test('21, 22: scrolled up, a thousand tokens and the end of the turn move nothing', async () => {
    await open([...OPEN, updates([STARTED, chunk(LONG)])]);
    await wheel(-600);
    const top = await scrollTop();
    for (let batch = 0; batch < 20; batch += 1) {
      const list = Array.from({ length: 50 }, (_, n) => chunk(`word${n} `));
      await say(page, [updates(list, 3 + batch * 50)]);
    }
    assert.equal(await scrollTop(), top);
    await say(page, [updates([ENDED], 1003)]);
    assert.equal(await scrollTop(), top);
  });

  test('23, 24: at the bottom it follows; the pill returns', async () => {
    await open([...OPEN, updates([STARTED, chunk(LONG)])]);
    assert.ok((await fromEnd()) <= 1);
    await say(page, [updates([chunk(LONG)], 3)]);
    assert.ok((await fromEnd()) <= 1);
    await wheel(-500);
    await page.locator('.pill').click();
    await page.waitForTimeout(50);
    assert.ok((await fromEnd()) <= 1);
    await say(page, [updates([chunk(LONG)], 4)]);
    assert.ok((await fromEnd()) <= 1);
    assert.equal(await page.locator('.pill').count(), 0);
  });

  test('25: a selection in the tail survives streaming', async () => {
    await open([...OPEN, updates([STARTED, chunk('The quick brown fox')])]);
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

  test('26: settled blocks keep their nodes', async () => {
    await open([...OPEN, updates([STARTED, chunk('One.\n\nTwo.\n\nThr')])]);
    await page.evaluate(() => {
      for (const node of document.querySelectorAll('.markdown .block')) (node as HTMLElement).dataset.mine = 'yes';
      for (const node of document.querySelectorAll('.markdown .block p')) (node as HTMLElement).dataset.mine = 'yes';
    });
    await say(page, [updates([chunk('ee.\n\nFour.')], 3), updates([ENDED], 4)]);
    assert.equal(await page.locator('.markdown .block p[data-mine]').count(), 2);
    assert.equal(await page.locator('.markdown .block').count(), 4);
  });

  test('27: code never loses its colour', async () => {
    await open([...OPEN, updates([STARTED, chunk('```ts\nconst a = 1;\n')])]);
    let coloured = 0;
    for (let n = 0; n < 12; n += 1) {
      await say(page, [updates([chunk(n % 3 === 2 ? `const b${n} = "x";\n` : `// part ${n} `)], 3 + n)]);
      const now = await page.locator('.code [class^="hljs-"]').count();
      assert.ok(now >= coloured && now > 0, `${coloured} → ${now}`);
      coloured = now;
    }
  });

  test('29: older rows on top keep the reading row in its place', async () => {
    const item = (n: number): Item => ({
      kind: 'message',
      id: `i${n}`,
      turnId: `t${Math.floor(n / 10)}`,
      seq: 0,
      text: `Row ${n}`,
    });
    const range = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => item(from + n));
    await open([...START, loaded(range(400, 600), { hasMore: true })]);
    await page.locator('.transcript').focus();
    for (let press = 0; press < 10 && (await posted(page, 'older')).length === 0; press += 1) {
      await page.keyboard.press('Home');
      await page.waitForTimeout(200);
    }
    assert.equal((await posted(page, 'older'))[0]?.before, 'i400');
    await page.locator('.transcript').evaluate((box) => {
      box.scrollTop = 120;
    });
    const row = page.locator('[data-row="i404"]');
    const top = (await row.boundingBox())?.y ?? 0;
    await say(page, [{ type: 'older', sessionId: 's1', items: range(200, 400), hasMore: false }]);
    await page.locator('[data-row="i385"]').waitFor({ state: 'attached' });
    const moved = async () => Math.abs(((await row.boundingBox())?.y ?? 0) - top);
    for (let wait = 0; wait < 30 && (await moved()) > 1; wait += 1) {
      await page.waitForTimeout(100);
    }
    assert.ok((await moved()) <= 1);
  });

  test('30: a draft is given to the host, and comes back', async () => {
    await open(OPEN);
    await prompt().fill('half a thought');
    await page.waitForTimeout(400);
    assert.equal((await posted(page, 'draft')).at(-1)?.draft.text, 'half a thought');
    await say(page, [
      { type: 'opening', sessionId: null, draft: { text: 'another', chips: [], caret: 3 }, mode: 'ask' },
    ]);
    assert.equal(await prompt().inputValue(), 'another');
  });

  test('30, 32: a prompt is a bubble at once, and comes back when it fails', async () => {
    await open(OPEN);
    await prompt().fill('Hello');
    await prompt().press('Enter');
    await page.locator('.prompt.sending', { hasText: 'Hello' }).waitFor({ timeout: 200 });
    const [sent] = await posted(page, 'send');
    assert.ok(sent);
    await say(page, [{ type: 'sendFailed', promptId: sent.promptId, message: 'No connection.', draft: sent.draft }]);
    await page.getByText('No connection.').waitFor();
    assert.equal(await prompt().inputValue(), 'Hello');
  });

  test('34, 35: while a turn runs prompts queue, Ctrl+Enter steers, and both can be withdrawn', async () => {
    await open([...OPEN, updates([STARTED])]);
    await prompt().fill('then this');
    await page.locator('.main-button[aria-label="Queue"]').waitFor();
    await prompt().press('Enter');
    await prompt().fill('rather that');
    await prompt().press('Control+Enter');
    assert.deepEqual(
      (await posted(page, 'send')).map((sent) => sent.whenBusy),
      ['queue', 'steer'],
    );
    await page.locator('.queue li').nth(1).waitFor();
    await page.locator('.queue li', { hasText: 'Read after this step' }).waitFor();
    await say(page, [updates([{ kind: 'turn_ended', stopReason: 'cancelled', usage: USAGE }], 2)]);
    assert.equal(await page.locator('.queue li').count(), 2);
    await page.locator('.queue li').first().getByRole('button', { name: 'Delete' }).click();
    assert.equal((await posted(page, 'withdraw')).length, 1);
  });

  test('36: undo that meets a person’s edits lists them', async () => {
    await open([
      ...OPEN,
      updates([
        STARTED,
        {
          kind: 'file_changed',
          uri: 'file:///home/ada/shop/a.ts',
          change: 'edited',
          added: 1,
          removed: 1,
          via: 'buffer',
        },
        {
          kind: 'file_changed',
          uri: 'file:///home/ada/shop/b.ts',
          change: 'edited',
          added: 1,
          removed: 1,
          via: 'buffer',
        },
        ENDED,
      ]),
    ]);
    await page.getByRole('button', { name: 'Undo turn' }).click();
    await page.getByText('Undoing…').waitFor();
    await say(page, [
      {
        type: 'undone',
        turnId: 't1',
        direction: 'undo',
        result: { changes: [], refused: [{ uri: 'file:///home/ada/shop/a.ts', reason: 'changed since.' }] },
      },
    ]);
    await page.locator('.conflicts', { hasText: 'a.ts' }).waitFor();
    await page.getByRole('button', { name: 'Undo the rest' }).click();
    assert.equal((await posted(page, 'undo')).at(-1)?.rest, true);
  });

  test('38: everything can be reached by Tab, and the focus is visible', async () => {
    await open(SCENES.command ?? []);
    await page.waitForTimeout(550);
    await page.locator('body').click({ position: { x: 1, y: 1 } });
    const seen = new Set<string>();
    for (let press = 0; press < 60; press += 1) {
      await page.keyboard.press('Tab');
      const [name, visible] = await page.evaluate(() => {
        const node = document.activeElement as HTMLElement;
        const style = getComputedStyle(node);
        const outlined = style.outlineStyle !== 'none' && style.outlineWidth !== '0px';
        const bordered = node.matches('textarea, input');
        return [
          node.getAttribute('aria-label') ?? node.textContent?.split('\n')[0] ?? '',
          outlined || bordered || node === document.body,
        ] as const;
      });
      seen.add(name);
      assert.ok(visible, `no visible focus on "${name}"`);
    }
    for (const name of [
      'Allow',
      'Deny…',
      'Change…',
      'More ways to allow',
      'Open diff',
      'Stop',
      'Ask, or describe a change',
    ])
      assert.ok(seen.has(name), `${name} was not reached`);
  });

  for (const theme of ['hc-dark', 'hc-light'] as const) {
    test(`39: every control has a border in ${theme}`, async () => {
      for (const scene of ['statuses', 'command', 'done', 'first-run']) {
        await open(SCENES[scene] ?? [], theme);
        const bare = await page.evaluate(() =>
          [...document.querySelectorAll<HTMLElement>('button, textarea, input, .card, .code')]
            .filter(
              (node) =>
                node.offsetParent !== null &&
                !node.matches('.link, .passed, .composer-box textarea, .dock-line .row-head'),
            )
            .filter((node) => {
              const style = getComputedStyle(node);
              return ['Top', 'Left'].some(
                (side) =>
                  style.getPropertyValue(`border-${side.toLowerCase()}-width`) === '0px' &&
                  !node.matches('.split-more'),
              );
            })
            .map((node) => node.className),
        );
        assert.deepEqual(bare, [], scene);
      }
    });
  }

  test('40: a screen reader hears one line per event, and no tokens', async () => {
    await open(OPEN);
    await say(page, [updates([STARTED])]);
    await page.locator('[aria-live="polite"]', { hasText: 'Working' }).waitFor({ state: 'attached' });
    await page.evaluate(() => {
      const heard: string[] = [];
      Object.assign(window, { heard });
      for (const node of document.querySelectorAll('[aria-live="polite"], [aria-live="assertive"]')) {
        new MutationObserver(() => heard.push(node.textContent ?? '')).observe(node, {
          childList: true,
          characterData: true,
          subtree: true,
        });
      }
    });
    for (let n = 0; n < 20; n += 1) await say(page, [updates([chunk(`token${n} `)], 2 + n)]);
    await say(page, [{ type: 'approval', request: EDIT_APPROVAL, at: AT }, updates([ENDED], 22)]);
    await page.waitForTimeout(3300);
    const heard = await page.evaluate(() => (window as unknown as { heard: string[] }).heard);
    assert.deepEqual(heard, ['Approval needed: Edit src/auth.ts', 'Reply ready']);
    assert.equal(await page.locator('[role="log"]').getAttribute('aria-live'), 'off');
  });

  test('41: with reduced motion nothing animates', async () => {
    await open(SCENES.statuses ?? []);
    assert.ok(await page.evaluate(() => document.getAnimations().length > 0));
    await page.evaluate(() => document.body.classList.add('vscode-reduce-motion'));
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  });

  test('42, 43: a remote image makes no request, and nothing violates the policy', async () => {
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await open([
      ...OPEN,
      updates([
        STARTED,
        chunk(
          '![cat](https://example.com/cat.png) <img src="https://example.com/b.png"> [x](javascript:alert(1)) <script>alert(2)</script>\n\n![c][r]\n\n[r]: https://example.com/c.png',
        ),
        ENDED,
      ]),
    ]);
    for (const scene of Object.values(SCENES)) await open(scene);
    assert.deepEqual(
      asked.filter((url) => !url.startsWith('http://127.0.0.1')),
      [],
    );
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    await open([
      ...OPEN,
      updates([
        STARTED,
        chunk('[x](javascript:alert(1)) [y](https://example.com) ![cat](https://example.com/cat.png)'),
        ENDED,
      ]),
    ]);
    const links = await page
      .locator('.markdown a')
      .evaluateAll((nodes) => nodes.map((node) => node.getAttribute('href')));
    assert.deepEqual(links, ['https://example.com', 'https://example.com/cat.png']);
  });

  for (const width of [300, 400, 800]) {
    test(`44: at ${width}px nothing scrolls sideways`, async () => {
      await page.setViewportSize({ width, height: 700 });
      for (const [name, scene] of Object.entries(SCENES)) {
        await open(scene);
        const [inner, outer] = await page.evaluate(
          () => [document.documentElement.scrollWidth, window.innerWidth] as const,
        );
        const box = await page
          .locator('.transcript')
          .evaluateAll((nodes) => nodes.map((node) => node.scrollWidth - node.clientWidth));
        assert.ok(inner <= outer && box.every((more) => more <= 0), `${name}: ${inner} > ${outer}, ${box}`);
      }
    });
  }

  test('a paste of many lines is a chip, an image a thumbnail', async () => {
    await open(OPEN);
    await prompt().focus();
    await prompt().evaluate((node) => {
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
    assert.equal(await prompt().inputValue(), '');
    await prompt().fill('See');
    await prompt().press('Enter');
    assert.deepEqual(
      (await posted(page, 'send'))[0]?.prompt.map((block) => block.type),
      ['text', 'text', 'image'],
    );
  });

  test('the session of another question is one press away', async () => {
    await open([...OPEN, { type: 'approval', request: { ...EDIT_APPROVAL, sessionId: 'other' }, at: AT }]);
    await page.getByText('1 approval waits in another session').waitFor();
    assert.equal(SESSION.id, 's1');
  });
});
