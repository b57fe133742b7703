/** Going back to an earlier point of a conversation, with its files, in a real VS Code. */

import assert from 'node:assert/strict';
import { story } from './support/story.ts';
import { AUTH } from './support/world.ts';

const EDIT = {
  name: 'update_file',
  args: {
    path: 'src/auth.py',
    edits: [{ old_string: '    valid: bool = True\n', new_string: '    valid: bool = False\n' }],
  },
};

story('restore', { settings: { 'pilotfish.mode': 'auto' } }, (step) => {
  step('a turn can be retried and forked wherever it is', async ({ workbench, provider, folder }) => {
    await workbench.open(folder);
    await workbench.showChat();
    await provider.script(
      { text: 'Nothing changes.' },
      { calls: [{ name: 'read_file', args: { path: 'src/auth.py' } }] },
      { calls: [EDIT, { name: 'bash', args: { command: 'touch made-by-a-command' } }] },
      { text: 'Changed.' },
    );
    await workbench.ask('Look at the shop');
    await workbench.ended(1);
    await workbench.ask('Invalidate tokens');
    await workbench.ended(2);
    assert.equal(await workbench.chat.locator('.receipt').first().getByRole('button', { name: 'Fork' }).count(), 1);
    assert.equal(await workbench.chat.locator('.receipt').first().getByRole('button', { name: 'Retry' }).count(), 1);
  });

  step('Restore to here puts files and conversation back, and says what stays', async (world) => {
    const { workbench, read } = world;
    assert.notEqual(await read('src/auth.py'), AUTH);
    const prompt = workbench.chat.locator('.prompt', { hasText: 'Invalidate tokens' });
    await prompt.hover();
    await prompt.getByRole('button', { name: 'Restore to here' }).click();
    await workbench.button('Restore').click();
    await workbench.chat.getByText('Restored: 1 file and the conversation.').waitFor();
    await workbench.chat.getByText('Effects of these commands stay: touch made-by-a-command').waitFor();
    await workbench.shot('restored');
    assert.equal(await read('src/auth.py'), AUTH);
    assert.deepEqual(await workbench.chat.locator('.prompt-words').allTextContents(), ['Look at the shop']);
    assert.equal(await workbench.prompt.inputValue(), 'Invalidate tokens');
  });

  step('Redo brings both back', async ({ workbench, read }) => {
    await workbench.button('Redo').click();
    await workbench.chat.locator('.prompt-words', { hasText: 'Invalidate tokens' }).waitFor();
    assert.match(await read('src/auth.py'), /valid: bool = False/);
  });
});

story('plan mode', { settings: { 'pilotfish.mode': 'plan' } }, (step) => {
  step('a plan can be edited, and Build carries it out in the same conversation', async (world) => {
    const { workbench, provider, folder } = world;
    await workbench.open(folder);
    await workbench.showChat();
    const entries = [
      { content: 'Read the module', status: 'completed' },
      { content: 'Write a test', status: 'in_progress' },
    ];
    await provider.script({ calls: [{ name: 'update_plan', args: { steps: entries } }] }, { text: 'This is my plan.' });
    await workbench.ask('Plan a test');
    await workbench.ended(1);
    await workbench.chat.getByText('Plan 1/2').waitFor();
    await workbench.chat.getByText('1 left').waitFor();
    await workbench.button('Edit plan').click();
    const plan = 'Change the plan to:\n- [x] Read the module\n- [ ] Write a test';
    for (let n = 0; n < 100 && (await workbench.prompt.inputValue()) !== plan; n += 1)
      await workbench.page.waitForTimeout(100);
    assert.equal(await workbench.prompt.inputValue(), plan);
    await workbench.prompt.fill('');
    await provider.script({ text: 'Built.' });
    await workbench.button('Build').click();
    await workbench.ended(2);
    await workbench.status('Ask first');
    assert.equal(await workbench.button('Build').count(), 0);
    assert.match((await provider.requests()).at(-1) ?? '', /This is my plan\..*Carry out the plan\./s);
  });
});
