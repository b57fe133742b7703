/** Sending, drafts, queue, stop, undo and failures in the chat view. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Failure, Update } from '../../src/protocol.gen.ts';
import type { Chip, ToView } from '../../webview/messages.ts';
import { posted, say } from '../harness/page.ts';
import { SESSION, updates } from '../harness/scenes.ts';
import { bareView, ENDED, OPEN, STARTED, USAGE } from './support/bare.ts';

const changed = (name: string): Update => ({
  kind: 'file_changed',
  uri: `file:///home/ada/shop/${name}`,
  change: 'edited',
  added: 1,
  removed: 1,
  via: 'buffer',
});
const opening = (sessionId: string | null, text: string): ToView => ({
  type: 'opening',
  sessionId,
  draft: { text, chips: [], caret: 3 },
  mode: 'ask',
});

bareView('sending', (bare) => {
  test('31. a draft belongs to one session', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().fill('of the first');
    // Another session opens before the draft is saved: the draft is saved with the first session.
    await say(page, [opening('s2', 'of the second')]);
    assert.equal(await bare.prompt().inputValue(), 'of the second');
    await say(page, [
      {
        type: 'loaded',
        page: { session: { ...SESSION, id: 's2' }, items: [], hasMore: false, lastSeq: 0, pendingApprovals: [] },
        queue: [],
        draft: { text: 'of the second', chips: [], caret: 3 },
        at: 0,
      },
    ]);
    await bare.prompt().pressSequentially(', grown');
    await page.waitForFunction(() => window.posted.some((one) => one.type === 'draft' && one.sessionId === 's2'));
    const kept = (await posted(page, 'draft')).map(({ sessionId, draft }) => [sessionId, draft.text]);
    assert.deepEqual(kept, [
      ['s1', 'of the first'],
      ['s2', 'of , grownthe second'],
    ]);
  });

  test('text that was typed before the server started is kept when a session opens', async () => {
    const { page } = bare;
    await bare.open([]);
    await bare.prompt().fill('early words');
    await say(page, OPEN.slice(0, -1));
    await say(page, [opening('s1', ''), ...OPEN.slice(-1)]);
    assert.equal(await bare.prompt().inputValue(), 'early words');
    await page.waitForFunction(() => window.posted.some((one) => one.type === 'draft' && one.sessionId === 's1'));
    await say(page, [opening('s2', 'of another')]);
    assert.equal(await bare.prompt().inputValue(), 'of another');
  });

  test('32. a prompt is shown within two frames, even without an answer', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().fill('Hello');
    const shown = await page.evaluate(async () => {
      const box = document.querySelector('#prompt');
      box?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
      for (let n = 0; n < 2; n += 1) await new Promise((done) => requestAnimationFrame(done));
      return document.querySelector('.prompt.sending')?.textContent ?? '';
    });
    assert.match(shown, /Hello.*Sending/);
    assert.equal(await bare.prompt().inputValue(), '');
    assert.equal((await posted(page, 'send')).length, 1);
  });

  test('a prompt that could not be sent returns to the composer', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().fill('Hello');
    await bare.prompt().press('Enter');
    const [sent] = await posted(page, 'send');
    assert.ok(sent);
    await say(page, [{ type: 'sendFailed', promptId: sent.promptId, message: 'No connection.', draft: sent.draft }]);
    await page.getByText('No connection.').waitFor();
    assert.equal(await bare.prompt().inputValue(), 'Hello');
  });

  test('a draft is sent to the host shortly after it was typed', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await bare.prompt().fill('half a thought');
    await page.waitForFunction(() => window.posted.some((one) => one.type === 'draft'));
    assert.equal((await posted(page, 'draft')).at(-1)?.draft.text, 'half a thought');
  });

  test('stop is acknowledged within two frames', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    const words = await page.evaluate(async () => {
      document.querySelector<HTMLElement>('.main-button.stop')?.click();
      for (let n = 0; n < 2; n += 1) await new Promise((done) => requestAnimationFrame(done));
      return document.querySelector('.working')?.textContent ?? '';
    });
    assert.match(words, /Stopping…/);
    assert.equal((await posted(page, 'stop')).length, 1);
  });

  test('editing a queued prompt adds its text and attachments to the draft', async () => {
    const { page } = bare;
    const file = { type: 'resource' as const, uri: 'file:///home/ada/shop/src/auth.ts' };
    const prompt = [{ type: 'text' as const, text: 'Then this' }, file];
    const prompts = [{ promptId: 'q1', prompt, kind: 'queue' as const }];
    await bare.open([...OPEN, updates([STARTED]), { type: 'queue', sessionId: 's1', prompts }]);
    await bare.prompt().fill('half a sentence');
    await page.locator('.queue li').getByRole('button', { name: 'Edit' }).click();
    assert.deepEqual(await posted(page, 'editQueued'), [{ type: 'editQueued', promptId: 'q1', prompt }]);
    assert.equal(await page.locator('.queue li').count(), 0);
    const chip: Chip = { id: file.uri, label: 'auth.ts', icon: 'file', block: file };
    await say(page, [{ type: 'compose', text: 'Then this', chips: [chip], send: false }]);
    assert.equal(await bare.prompt().inputValue(), 'half a sentence\nThen this');
    assert.deepEqual(await page.locator('.chips .chip-label').allTextContents(), ['auth.ts']);
  });

  test('recalling an earlier prompt keeps the attachments', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, ENDED])]);
    const chip: Chip = { id: 'a', label: 'auth.ts', icon: 'file', block: { type: 'resource', uri: 'file:///a' } };
    await say(page, [{ type: 'attach', chips: [chip] }]);
    await bare.prompt().press('ArrowUp');
    await page.waitForFunction(() => (document.querySelector('#prompt') as HTMLTextAreaElement).value === 'Hi');
    assert.deepEqual(await page.locator('.chips .chip-label').allTextContents(), ['auth.ts']);
  });

  test('a retry folds the previous attempt, but sending the same text does not', async () => {
    const { page } = bare;
    const again = (promptId: string): Update => ({ ...STARTED, promptId }) as Update;
    await bare.open([...OPEN, updates([STARTED, ENDED])]);
    await page.getByRole('button', { name: 'Retry' }).click();
    const [sent] = await posted(page, 'send');
    await say(page, [updates([again(sent?.promptId ?? ''), ENDED], 3, 't2')]);
    await page.locator('.attempt', { hasText: 'Attempt 1' }).waitFor();
    assert.equal(await page.locator('.prompt').count(), 1);
    await say(page, [updates([again('p9'), ENDED], 5, 't3')]);
    assert.equal(await page.locator('.attempt').count(), 1);
    assert.equal(await page.locator('.prompt').count(), 2);
  });

  test('the wait before a retry counts down and can be skipped', async () => {
    const { page } = bare;
    const notice: Update = { kind: 'notice', level: 'warning', message: 'Busy. Retrying in 60 s.', retryAfter: 60 };
    await bare.open(OPEN);
    await say(page, [{ ...updates([STARTED, notice]), at: Date.now() } as ToView]);
    await page.locator('.working', { hasText: /Retrying in (1m|5\ds)/ }).waitFor();
    await page.getByRole('button', { name: 'Retry now' }).click();
    assert.deepEqual(await posted(page, 'retryNow'), [{ type: 'retryNow' }]);
    await page.locator('.working', { hasText: 'Working' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Retry now' }).count(), 0);
  });

  test('a turn with a question of the agent shows that it waits for the user', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    await say(page, [{ type: 'ask', ask: { id: 'k1', sessionId: 's1', question: 'Which?', options: [] } }]);
    await page.locator('.working.waiting', { hasText: 'Waiting for you' }).waitFor();
  });

  test('while a turn runs, Enter queues, Ctrl+Enter steers, and both can be withdrawn', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED])]);
    await bare.prompt().fill('then this');
    await page.locator('.main-button[aria-label="Queue"]').waitFor();
    await bare.prompt().press('Enter');
    await bare.prompt().fill('rather that');
    await bare.prompt().press('Control+Enter');
    assert.deepEqual(
      (await posted(page, 'send')).map((sent) => sent.whenBusy),
      ['queue', 'steer'],
    );
    await page.locator('.queue li', { hasText: 'Delivered at the next step' }).waitFor();
    await say(page, [updates([{ kind: 'turn_ended', stopReason: 'cancelled', usage: USAGE }], 2)]);
    assert.equal(await page.locator('.queue li').count(), 2);
    await page.locator('.queue li').first().getByRole('button', { name: 'Delete' }).click();
    assert.equal((await posted(page, 'withdraw')).length, 1);
  });

  test('undo lists conflicts with the user’s edits and offers to undo the other files', async () => {
    const { page } = bare;
    await bare.open([...OPEN, updates([STARTED, changed('a.ts'), changed('b.ts'), ENDED])]);
    await page.getByRole('button', { name: 'Undo turn' }).click();
    await page.getByText('Undoing…').waitFor();
    const refused = [{ uri: 'file:///home/ada/shop/a.ts', reason: 'changed since.' }];
    await say(page, [{ type: 'undone', turnId: 't1', direction: 'undo', result: { changes: [], refused } }]);
    assert.deepEqual(await page.locator('.conflicts li').allTextContents(), ['a.ts changed since.']);
    await page.getByRole('button', { name: 'Show diff' }).click();
    assert.deepEqual(
      (await posted(page, 'review'))[0]?.files.map(({ uri }) => uri),
      ['file:///home/ada/shop/a.ts'],
    );
    await page.getByRole('button', { name: 'Undo the other files' }).click();
    assert.equal((await posted(page, 'undo')).at(-1)?.rest, true);
  });

  test('editing a prompt shows which turns it drops and asks about the files', async () => {
    const { page } = bare;
    const second: Update = { kind: 'turn_started', promptId: 'p2', prompt: [{ type: 'text', text: 'More' }] };
    await bare.open([...OPEN, updates([STARTED, changed('a.ts'), ENDED]), updates([second, ENDED], 4, 't2')]);
    await page.locator('.prompt').first().hover();
    await page.getByRole('button', { name: 'Edit and resend' }).first().click();
    await page.getByText('Continues in a copy of this session without the later turn.').waitFor();
    await page.getByLabel('Edit prompt').fill('Hi there');
    await page.getByLabel('Edit prompt').press('Enter');
    await page.getByRole('button', { name: 'Undo file changes' }).click();
    const [sent] = await posted(page, 'resend');
    assert.deepEqual(
      [sent?.turnId, sent?.laterTurns, sent?.files, sent?.prompt],
      ['t1', ['t2'], 'undo', [{ type: 'text', text: 'Hi there' }]],
    );
  });

  const failures: readonly [Failure['kind'], string, readonly string[]][] = [
    ['authentication', 'The provider rejected the API key.', ['Update API key', 'Switch model', 'Retry']],
    ['rate_limit', 'Rate limited. Try again in 18s.', ['Retry now', 'Switch model']],
    ['network', 'Cannot reach the provider. Your prompt is saved.', ['Retry', 'Settings']],
    ['context', 'The conversation is too long for the model.', ['Summarise', 'New session', 'Switch model', 'Retry']],
    ['credit', 'The provider reports that your account has no credit.', ['Switch model', 'Retry']],
  ];
  test('a failure shows a short reason and its remedies as buttons', async () => {
    const { page } = bare;
    for (const [kind, words, buttons] of failures) {
      const error: Failure = { kind, message: 'In their words.', remedy: 'Wait.', retryable: false, retryAfter: 18 };
      await bare.open([...OPEN, updates([STARTED, { kind: 'turn_ended', stopReason: 'failed', usage: USAGE, error }])]);
      const box = page.locator('.notice.boxed');
      assert.equal(await box.locator('span:not(.icon)').first().textContent(), words);
      assert.deepEqual(await box.getByRole('button').allTextContents(), buttons);
      await box.getByText('Details').click();
      await box.getByText('In their words.').waitFor();
    }
  });

  test('a session that cannot be opened shows the reason and actions, and a prompt can still be sent', async () => {
    const { page } = bare;
    await bare.open([...OPEN, opening('s1', '')]);
    await page.locator('.skeleton').waitFor();
    await say(page, [{ type: 'openFailed', sessionId: 's1', message: 'The disk is full.' }]);
    const box = page.locator('.notice.boxed');
    await box.getByText('The disk is full.').waitFor();
    for (const name of await box.getByRole('button').allTextContents()) await box.getByRole('button', { name }).click();
    const said = await page.evaluate(() =>
      window.posted.filter((one) => one.type === 'openSession' || one.type === 'command'),
    );
    assert.deepEqual(said, [
      { type: 'openSession', sessionId: 's1' },
      { type: 'command', command: 'newSession' },
      { type: 'command', command: 'showLog' },
    ]);
    await bare.prompt().fill('All the same');
    await bare.prompt().press('Enter');
    await page.locator('.prompt', { hasText: 'All the same' }).getByText('Sending').waitFor();
  });

  test('two prompts that are sent before a session exists are both shown', async () => {
    const { page } = bare;
    await bare.open(OPEN.slice(0, -1));
    for (const text of ['first', 'second']) {
      await bare.prompt().fill(text);
      await bare.prompt().press('Enter');
    }
    await page.locator('.prompt', { hasText: 'second' }).waitFor();
    assert.deepEqual(await page.locator('.prompt-words').allTextContents(), ['first', 'second']);
    const [first, second] = await posted(page, 'send');
    const started: Update = {
      kind: 'turn_started',
      promptId: first?.promptId ?? '',
      prompt: [...(first?.prompt ?? [])],
    };
    const waits = { promptId: second?.promptId ?? '', prompt: [...(second?.prompt ?? [])], kind: 'queue' as const };
    await say(page, [
      { type: 'began', session: SESSION },
      updates([started]),
      { type: 'queue', sessionId: 's1', prompts: [waits] },
    ]);
    assert.deepEqual(await page.locator('.prompt-words').allTextContents(), ['first']);
    assert.deepEqual(await page.locator('.queue .dock-title').allTextContents(), ['second']);
  });

  test('every remedy works', async () => {
    const { page } = bare;
    const pressed = async (error: Partial<Failure>, button: string) => {
      const failure: Failure = { kind: 'internal', message: 'm', remedy: 'r', retryable: false, ...error };
      const ended: Update = { kind: 'turn_ended', stopReason: 'failed', usage: USAGE, error: failure };
      await bare.open([...OPEN, updates([STARTED, ended])]);
      await page.locator('.notice.boxed').getByRole('button', { name: button }).click();
      return page.evaluate(() => {
        const said = window.posted.findLast((one) => one.type === 'command' || one.type === 'send');
        if (said?.type === 'command') return said.command;
        const [block] = said?.prompt ?? [];
        return said && block?.type === 'text' ? `${said.promptId.split('-', 1)[0]}: ${block.text}` : undefined;
      });
    };
    assert.deepEqual(
      [
        await pressed({ kind: 'authentication' }, 'Update API key'),
        await pressed({ kind: 'authentication' }, 'Retry'),
        await pressed({ kind: 'configuration' }, 'Settings'),
        await pressed({ kind: 'context' }, 'Summarise'),
        await pressed({ kind: 'context' }, 'New session'),
        await pressed({ kind: 'restarted' }, 'Continue'),
        await pressed({ kind: 'internal' }, 'Show log'),
        await pressed({ kind: 'bad_request' }, 'Switch model'),
      ],
      [
        'setKey',
        'retry: Hi',
        'settings',
        'p: /compact',
        'newSession',
        'p: Continue where you stopped.',
        'showLog',
        'selectModel',
      ],
    );
    assert.equal(await pressed({ kind: 'bad_request' }, 'Edit prompt'), undefined);
    await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Edit prompt');
  });

  test('a notice offers remedies while its turn is the newest', async () => {
    const { page } = bare;
    const unsaved: Update = {
      kind: 'notice',
      level: 'error',
      message: 'The session could not be saved.',
      remedy: 'Look into the log.',
      cause: 'storage',
    };
    const second: Update = { kind: 'turn_started', promptId: 'p2', prompt: [{ type: 'text', text: 'More' }] };
    await bare.open([...OPEN, updates([STARTED, unsaved, ENDED])]);
    await page.locator('.notice').getByRole('button', { name: 'Show log' }).click();
    assert.deepEqual(await posted(page, 'command'), [{ type: 'command', command: 'showLog' }]);
    await say(page, [updates([second], 4, 't2')]);
    assert.equal(await page.locator('.notice.error').getByRole('button').count(), 0);
  });

  test('the model can be switched while the server waits before a retry', async () => {
    const { page } = bare;
    const busy: Update = { kind: 'notice', level: 'warning', message: 'Busy.', cause: 'rate_limit', retryAfter: 9e6 };
    await bare.open([...OPEN, updates([STARTED, busy])]);
    assert.deepEqual(await page.locator('.retrying').getByRole('button').allTextContents(), [
      'Retry now',
      'Switch model',
    ]);
    await page.locator('.retrying').getByRole('button', { name: 'Switch model' }).click();
    assert.deepEqual(await posted(page, 'command'), [{ type: 'command', command: 'selectModel' }]);
  });

  test('an image for a model without image support shows a warning', async () => {
    const { page } = bare;
    const block = { type: 'image' as const, data: 'iVBORw0KGgo=', mimeType: 'image/png' };
    const chip: Chip = { id: 'i1', label: 'shot.png', icon: 'image', block };
    const model = { current: 'ollama:qwen3', label: 'qwen3', available: true, demo: false };
    const note = page.locator('.composer-note');
    await bare.open([...OPEN, { type: 'model', model }, { type: 'attach', chips: [chip] }]);
    await page.locator('.chips').getByText('shot.png').waitFor();
    assert.equal(await note.textContent(), '');
    await say(page, [{ type: 'model', model: { ...model, seesImages: true } }]);
    assert.equal(await note.textContent(), '');
    await say(page, [{ type: 'model', model: { ...model, seesImages: false } }]);
    assert.equal(await note.textContent(), 'qwen3 cannot see images. Switch model');
    await note.getByRole('button', { name: 'Switch model' }).click();
    assert.deepEqual(await posted(page, 'command'), [{ type: 'command', command: 'selectModel' }]);
    await page.getByRole('button', { name: 'Remove shot.png' }).click();
    await page.waitForFunction(() => document.querySelector('.composer-note')?.textContent === '');
  });

  test('the demo model shows a hint with a button to connect a model', async () => {
    const { page } = bare;
    const model = { current: 'demo', label: 'Demo', available: true, demo: true };
    await bare.open([...OPEN, { type: 'model', model }, updates([STARTED, ENDED])]);
    const hint = page.locator('.composer-hint');
    await hint.getByText('No model is connected. A scripted guide is answering.').waitFor();
    await hint.getByRole('button', { name: 'Connect a model' }).click();
    assert.deepEqual(await posted(page, 'command'), [{ type: 'command', command: 'selectModel' }]);
    await say(page, [{ type: 'model', model: { ...model, current: 'ollama:qwen3', demo: false } }]);
    assert.equal(await hint.count(), 0);
  });
});
