import { describe, expect, it } from 'vitest';
import type { CallStatus } from '../../../../src/protocol.gen.ts';
import { announcementText } from '../../../../webview/common/format.ts';
import { callTitle } from '../../../../webview/transcript/callTitle.ts';
import { call } from '../../../harness/scenes.ts';

const titled = (title: string, status: CallStatus, error?: string) =>
  callTitle({
    kind: 'tool_call',
    id: 'c',
    call: call('c', title, 'execute', status, error === undefined ? {} : { error }),
    progress: '',
    written: '',
  });

describe('the title of a call', () => {
  it.each<[CallStatus, string]>([
    ['pending', 'Run npm test'],
    ['awaiting_approval', 'Waiting: npm test'],
    ['in_progress', 'Running: npm test'],
    ['completed', 'Ran npm test'],
    ['failed', 'Not run: npm test'],
    ['denied', 'Denied: npm test'],
    ['cancelled', 'Stopped: npm test'],
  ])('%s', (status, title) => {
    expect(titled('Run npm test', status)).toBe(title);
  });

  it('is “Stopped” if no one answered its approval', () => {
    const approval = { decision: 'deny' as const, by: 'nobody' as const, reason: '', amended: false };
    const asked = call('c', 'Run npm test', 'execute', 'denied', { approval });
    expect(callTitle({ kind: 'tool_call', id: 'c', call: asked, progress: '', written: '' })).toBe('Stopped: npm test');
  });

  it('includes the exit code of a failed command', () => {
    expect(titled('Run npm run lint', 'failed', 'exit code 1')).toBe('Ran npm run lint, exit 1');
  });

  it.each([
    [
      'Write src/auth.ts',
      '/home/ada/shop/src/auth.ts exists and has not been read; read it first, or change only parts of it',
      'Not written: src/auth.ts had not been read first',
    ],
    [
      'Edit src/auth.ts',
      'old_string is not in the file. Read it again.',
      'Not changed: the text to replace is not in src/auth.ts',
    ],
    [
      'Delete src/auth.ts',
      '/home/ada/shop/src/auth.ts has been changed since',
      'Not deleted: src/auth.ts has changed since it was read',
    ],
    [
      'Fetch https://a.b',
      'The user has turned the network off; continue without it',
      'Not fetched: The user has turned the network off',
    ],
    ['Move a to b', '/home/ada/shop/src/b already exists; nothing was overwritten', 'Not moved: src/b already exists'],
    ['Run npm test', 'the command is empty', 'Not run: the command is empty'],
    ['Run sleep 99', 'stopped, with every process it started: timeout', 'Ran sleep 99, stopped'],
    ['Research: why?', 'the model did not answer', 'Failed: the model did not answer'],
  ])('of %s that failed says what did not happen and why', (title, error, line) => {
    const locations = /auth/.test(title) ? [{ uri: 'file:///home/ada/shop/src/auth.ts' }] : [];
    const failed = call('c', title, 'write', 'failed', { error, locations });
    const entry = { kind: 'tool_call' as const, id: 'c', call: failed, progress: '', written: '' };
    expect(callTitle(entry, 'file:///home/ada/shop')).toBe(line);
  });

  it('keeps its verb unless it is a command', () => {
    expect(titled('Edit src/auth.ts', 'awaiting_approval')).toBe('Waiting: edit src/auth.ts');
    expect(titled('Edit src/auth.ts (2 edits)', 'completed')).toBe('Edited src/auth.ts (2 edits)');
    expect(titled('Fetch https://docs.rs/x', 'denied')).toBe('Denied: fetch https://docs.rs/x');
    expect(titled('Research: where is the parser?', 'completed')).toBe('Research: where is the parser?');
  });

  it('is the first line, with hidden characters escaped', () => {
    expect(titled('Run a\nrm -rf b', 'completed')).toBe('Ran a');
    expect(titled('Run \u202ex', 'in_progress')).toBe('Running: \\u{202e}x');
    expect(announcementText({ n: 1, what: 'approval', detail: 'Run \u202ex' })).toBe('Approval needed: Run \\u{202e}x');
  });
});
