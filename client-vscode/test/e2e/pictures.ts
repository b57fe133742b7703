/** Takes the screenshots of the READMEs in a real VS Code: `npm run pictures` writes them to media/. */

import path from 'node:path';
import { held } from './support/provider.ts';
import { CLIENT } from './support/vscode.ts';
import { makeWorld, type World } from './support/world.ts';

const CHECK = '    if token:\n        return True\n    return False';
const FIXED =
  '    if token is None or not token.valid:\n        return False\n    return token.expires > datetime.now()';
const ANSWER = `\`is_logged_in\` took **any** token for a login, even one that was revoked. It looks at \`valid\` and \`expires\` now, see \`src/auth.py:13\`:

\`\`\`python
if token is None or not token.valid:
    return False
return token.expires > datetime.now()
\`\`\`

| token | before | now |
| --- | --- | --- |
| none | no | no |
| revoked | **yes** | no |
| expired | **yes** | no |
`;

const media = path.join(CLIENT, 'media');

async function prepare(theme: string): Promise<World> {
  const world = await makeWorld({
    settings: { 'workbench.colorTheme': theme },
    viewport: { width: 1200, height: 740 },
  });
  const { page, chat } = world.workbench;
  await world.workbench.open(world.folder);
  await world.workbench.openFile('auth.py');
  await page.keyboard.press('Control+B');
  await world.workbench.command('Pilotfish: Open Chat');
  await chat.locator('#prompt').waitFor();
  const sash = page.locator('.monaco-sash.vertical').last();
  const box = await sash.boundingBox();
  if (box) {
    await page.mouse.move(box.x + box.width / 2, 400);
    await page.mouse.down();
    await page.mouse.move(box.x - 110, 400, { steps: 5 });
    await page.mouse.up();
    await page.mouse.move(500, 650);
  }
  return world;
}

async function work(world: World): Promise<void> {
  const steps = (done: number) =>
    ['Find the check', 'Look at validity and expiry', 'Run the tests'].map((content, index) => ({
      content,
      status: index < done ? 'completed' : index === done ? 'in_progress' : 'pending',
    }));
  await world.provider.script(
    {
      thoughts: 'The check must look at the token itself.',
      calls: [
        { name: 'update_plan', args: { steps: steps(0) } },
        { name: 'read_file', args: { path: 'src/auth.py' } },
        { name: 'read_file', args: { path: 'src/token_store.py' } },
        { name: 'grep', args: { pattern: 'is_logged_in' } },
      ],
      usage: { input: 6200, output: 180 },
    },
    {
      calls: [
        { name: 'update_plan', args: { steps: steps(1) } },
        { name: 'update_file', args: { path: 'src/auth.py', edits: [{ old_string: CHECK, new_string: FIXED }] } },
      ],
      usage: { input: 8400, output: 260, cached: 6000 },
    },
    { calls: [{ name: 'update_plan', args: { steps: steps(3) } }] },
    { text: ANSWER, usage: { input: 9100, output: 420, cached: 8000 } },
  );
  await world.workbench.ask('A revoked token still counts as a login. Fix it.');
  await world.workbench.card.waitFor();
  await settled(world);
}

/** Moves the pointer away and waits until all animations have ended. */
async function settled(world: World): Promise<void> {
  await world.workbench.page.mouse.move(500, 650);
  await world.workbench.page.waitForTimeout(2000);
}

/** The chat beside the editor, while an edit waits for approval. */
async function waiting(world: World, name: string): Promise<void> {
  await world.workbench.page.locator('.codelens-decoration a', { hasText: 'Deny' }).waitFor();
  await settled(world);
  await world.workbench.page.screenshot({ path: path.join(media, `${name}.png`) });
}

async function approve(world: World, name: string): Promise<void> {
  const { page, chat } = world.workbench;
  await chat.getByRole('button', { name: 'Open diff' }).click();
  await page.locator('.monaco-diff-editor .char-insert, .monaco-diff-editor .line-insert').first().waitFor();
  await settled(world);
  await page.screenshot({ path: path.join(media, `${name}.png`) });
}

async function answer(world: World, name: string): Promise<void> {
  const { page, chat } = world.workbench;
  await chat.getByRole('button', { name: 'Allow', exact: true }).click();
  await chat.locator('.turn-end').first().waitFor();
  await settled(world);
  await page.screenshot({ path: path.join(media, `${name}.png`) });
}

const dark = await prepare('Dark 2026');
await work(dark);
await waiting(dark, 'chat-dark');
await approve(dark, 'diff');
await answer(dark, 'answer');
await dark.stop();

const light = await prepare('Light 2026');
await work(light);
await waiting(light, 'chat');
await light.workbench.chat.getByRole('button', { name: 'Allow', exact: true }).click();
await light.workbench.chat.locator('.turn-end').first().waitFor();
await light.provider.hold();
await light.provider.script(held({ calls: [{ name: 'bash', args: { command: 'git push origin main' } }] }), {
  text: 'Pushed.',
});
await light.workbench.ask('Push it');
await light.workbench.chat.locator('.working').waitFor();
await light.workbench.hideChat();
await light.provider.release();
await light.workbench.restingToast('Run git');
await settled(light);
await light.workbench.page.screenshot({
  path: path.join(media, 'notification.png'),
  clip: { x: 400, y: 400, width: 800, height: 340 },
});
await light.stop();
