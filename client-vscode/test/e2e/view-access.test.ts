/** Themes, screen readers, motion, content security policy and width of the chat view. The numbers refer to the UX checklist. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dress, posted, say } from '../harness/page.ts';
import { EDIT_APPROVAL, SCENES, updates } from '../harness/scenes.ts';
import { bareView, chunk, ENDED, OPEN, outsideTheView, STARTED, scrollingSideways } from './support/bare.ts';

const TRAPS =
  '![cat](https://example.com/cat.png) <img src="https://example.com/b.png"> [x](javascript:alert(1)) <script>alert(2)</script>\n\n![c][r]\n\n[r]: https://example.com/c.png';

bareView('access', (bare) => {
  test('39. in high contrast, light and dark, every control has a border', async () => {
    const { page } = bare;
    for (const [name, scene] of Object.entries(SCENES)) {
      await bare.open(scene);
      for (const theme of ['hc-dark', 'hc-light'] as const) {
        await dress(page, theme);
        const [bare_, all] = await page.evaluate(() => {
          const controls = [
            ...document.querySelectorAll<HTMLElement>('button, textarea, input, select, .card, .code'),
          ].filter(
            (node) =>
              node.offsetParent !== null &&
              !node.matches('.link, .passed, .composer-box textarea, .dock-line .row-head'),
          );
          const isBare = (node: HTMLElement) => {
            const style = getComputedStyle(node);
            const none = (side: string) =>
              style.getPropertyValue(`border-${side}-width`) === '0px' ||
              style.getPropertyValue(`border-${side}-style`) === 'none' ||
              style.getPropertyValue(`border-${side}-color`) === 'rgba(0, 0, 0, 0)';
            return none('top') || (none('left') && !node.matches('.split-more'));
          };
          return [controls.filter(isBare).map((node) => node.className), controls.length] as const;
        });
        assert.deepEqual(bare_, [], `${name} in ${theme}`);
        assert.ok(all >= 4, `${name} in ${theme} has controls`);
      }
    }
  });

  test('40. a screen reader gets one announcement per event and no streamed text', async () => {
    const { page } = bare;
    await bare.open(OPEN);
    await say(page, [updates([STARTED])]);
    await page.locator('[aria-live="polite"]', { hasText: 'Working' }).waitFor({ state: 'attached' });
    await page.evaluate(() => {
      const heard: string[] = [];
      Object.assign(window, { heard });
      for (const node of document.querySelectorAll('[aria-live="polite"], [aria-live="assertive"]')) {
        const note = () => heard.push(node.textContent ?? '');
        new MutationObserver(note).observe(node, { childList: true, characterData: true, subtree: true });
      }
    });
    for (let n = 0; n < 20; n += 1) await say(page, [updates([chunk(`token${n} `)], 2 + n)]);
    await say(page, [{ type: 'approval', request: EDIT_APPROVAL }, updates([ENDED], 22)]);
    await page.locator('[aria-live="polite"]', { hasText: 'Reply ready' }).waitFor({ state: 'attached' });
    const heard = await page.evaluate(() => (window as unknown as { heard: string[] }).heard);
    assert.deepEqual(heard, ['Approval needed: Edit src/auth.ts', 'Reply ready']);
    assert.equal(await page.locator('[role="log"]').getAttribute('aria-live'), 'off');
  });

  test('41. with reduced motion nothing animates', async () => {
    const { page } = bare;
    for (const scene of Object.values(SCENES)) {
      await bare.open(scene);
      await page.evaluate(() => document.body.classList.add('vscode-reduce-motion'));
      assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
    }
    await bare.open(SCENES.statuses ?? []);
    assert.ok(await page.evaluate(() => document.getAnimations().length > 0), 'without it, something does');
  });

  test('42. a remote image makes no request', async () => {
    const { page } = bare;
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await bare.open([...OPEN, updates([STARTED, chunk(TRAPS), ENDED])]);
    await page.locator('.markdown a').first().waitFor();
    await page.waitForLoadState('networkidle');
    assert.ok(asked.length > 0);
    assert.deepEqual(
      asked.filter((url) => !url.startsWith('http://127.0.0.1')),
      [],
    );
    assert.equal(await page.locator('.markdown img').count(), 0);
    const links = await page
      .locator('.markdown a')
      .evaluateAll((nodes) => nodes.map((node) => node.getAttribute('href')));
    assert.deepEqual(
      links.filter((href) => !href?.startsWith('https://example.com/')),
      [],
    );
  });

  test('43. no scene and no malicious content violates the content security policy', async () => {
    const { page } = bare;
    const scenes = [...Object.values(SCENES), [...OPEN, updates([STARTED, chunk(TRAPS), ENDED])]];
    for (const scene of scenes) {
      await bare.open(scene);
      // The policy refuses the style of a diagram's draft; that is expected and not reported.
      const found = await page.evaluate(() =>
        window.violations.filter((one) => !/^style-src-(?:attr|elem) inline$/.test(one)),
      );
      assert.deepEqual(found, []);
      assert.deepEqual(await posted(page, 'problem'), []);
    }
    // Check that violations are detected: a remote image is one.
    await page.evaluate(async () => {
      const image = document.createElement('img');
      image.src = 'https://example.com/x.png';
      document.body.append(image);
      await new Promise((done) => document.addEventListener('securitypolicyviolation', done, { once: true }));
    });
    assert.equal((await page.evaluate(() => window.violations)).length, 1);
  });

  test('44. nothing scrolls horizontally at 300, 400 and 800 px', async () => {
    const { page } = bare;
    for (const [name, scene] of Object.entries(SCENES)) {
      await bare.open(scene);
      for (const width of [300, 400, 800]) {
        await page.setViewportSize({ width, height: 700 });
        await say(page, []);
        assert.deepEqual(await scrollingSideways(page), [], `${name} at ${width}`);
      }
    }
  });

  test('a very long word is wrapped or cut, and every control stays inside the view', async () => {
    const { page } = bare;
    await bare.open(SCENES.hostile ?? []);
    for (const width of [240, 300, 400]) {
      await page.setViewportSize({ width, height: 700 });
      await say(page, []);
      assert.deepEqual(await outsideTheView(page), [], `at ${width}`);
    }
  });

  test('each paragraph has its own text direction, and code runs from left to right', async () => {
    const { page } = bare;
    await bare.open(SCENES.rtl ?? []);
    const directions = await page.evaluate(() =>
      ['.prompt-words', '.block p', '.block ol', '.block code', '.code pre', '.block:last-child'].map((selector) => {
        const nodes = document.querySelectorAll(`[data-row] ${selector}`);
        const node = nodes[selector === '.block:last-child' ? nodes.length - 1 : 0];
        return node && getComputedStyle(node).direction;
      }),
    );
    assert.deepEqual(directions, ['rtl', 'rtl', 'rtl', 'ltr', 'ltr', 'ltr']);
    await bare.prompt().fill('مرحبا');
    assert.equal(await bare.prompt().evaluate((node) => getComputedStyle(node).direction), 'rtl');
    await bare.prompt().fill('hello');
    assert.equal(await bare.prompt().evaluate((node) => getComputedStyle(node).direction), 'ltr');
  });

  test('every region, toolbar, menu, list of options and control has a name', async () => {
    const { page } = bare;
    const named = new Set(
      'main region log form toolbar menu listbox group article alert button textbox combobox link img'.split(' '),
    );
    // The text of an alert is its name.
    const unnamed = new Set(['alert']);
    const cdp = await bare.browser.context.newCDPSession(page);
    for (const [name, scene] of Object.entries(SCENES)) {
      await bare.open(scene);
      const { nodes } = await cdp.send('Accessibility.getFullAXTree');
      const shown = nodes.filter((node) => !node.ignored && named.has(String(node.role?.value)));
      const without = shown
        .filter((node) => !unnamed.has(String(node.role?.value)) && !node.name?.value)
        .map((node) => node.role?.value);
      assert.deepEqual(without, [], name);
      const landmarks = shown
        .filter((node) => ['main', 'region'].includes(String(node.role?.value)))
        .map((node) => `${node.role?.value} ${node.name?.value}`);
      assert.ok(landmarks.includes('region Prompt'), name);
      assert.ok(landmarks.includes('main Session') || landmarks.includes('main Start'), name);
      if (name === 'statuses') assert.ok(landmarks.includes('region Approvals, plan and queue'));
      // A section without a name is not a region, so the check above would miss it.
      assert.equal(await page.locator('section:not([aria-label])').count(), 0, name);
    }
    await cdp.detach();
  });
});
