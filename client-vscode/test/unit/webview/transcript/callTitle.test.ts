import { describe, expect, it } from 'vitest';
import type { CallStatus } from '../../../../src/protocol.gen.ts';
import { coverage, covers } from '../../../../webview/approvals/ruleCoverage.ts';
import { placeOf, saidWords } from '../../../../webview/common/format.ts';
import { reduce } from '../../../../webview/state/reduce.ts';
import { INITIAL, type State } from '../../../../webview/state/state.ts';
import { callTitle } from '../../../../webview/transcript/callTitle.ts';
import { call, loaded, updates } from '../../../harness/scenes.ts';

const titled = (title: string, status: CallStatus, error?: string) =>
  callTitle({
    kind: 'tool_call',
    id: 'c',
    call: call('c', title, 'execute', status, error === undefined ? {} : { error }),
    progress: '',
    written: '',
  });

describe('a call is titled by how far it is', () => {
  it.each<[CallStatus, string]>([
    ['pending', 'Run npm test'],
    ['awaiting_approval', 'Waiting: npm test'],
    ['in_progress', 'Running: npm test'],
    ['completed', 'Ran npm test'],
    ['failed', 'Ran npm test'],
    ['denied', 'Denied: npm test'],
    ['cancelled', 'Stopped: npm test'],
  ])('%s', (status, title) => {
    expect(titled('Run npm test', status)).toBe(title);
  });

  it('a question that nobody could answer was not denied', () => {
    const approval = { decision: 'deny' as const, by: 'nobody' as const, reason: '', amended: false };
    const asked = call('c', 'Run npm test', 'execute', 'denied', { approval });
    expect(callTitle({ kind: 'tool_call', id: 'c', call: asked, progress: '', written: '' })).toBe('Stopped: npm test');
  });

  it('what failed says how', () => {
    expect(titled('Run npm run lint', 'failed', 'exit code 1')).toBe('Ran npm run lint, exit 1');
    expect(titled('Edit src/auth.ts', 'failed', 'exit code 1')).toBe('Edited src/auth.ts');
  });

  it('everything but a command keeps its verb', () => {
    expect(titled('Edit src/auth.ts', 'awaiting_approval')).toBe('Waiting: edit src/auth.ts');
    expect(titled('Edit src/auth.ts (2 edits)', 'completed')).toBe('Edited src/auth.ts (2 edits)');
    expect(titled('Fetch https://docs.rs/x', 'denied')).toBe('Denied: fetch https://docs.rs/x');
    expect(titled('Research: where is the parser?', 'completed')).toBe('Research: where is the parser?');
  });

  it('only its first line is a title, and hidden characters are written out', () => {
    expect(titled('Run a\nrm -rf b', 'completed')).toBe('Ran a');
    expect(titled('Run \u202ex', 'in_progress')).toBe('Running: \\u{202e}x');
    expect(saidWords({ n: 1, what: 'approval', detail: 'Run \u202ex' })).toBe('Approval needed: Run \\u{202e}x');
  });
});

describe('a rule covers', () => {
  it('its very line, and with a star what follows, but nothing chained to it', () => {
    expect(covers('npm test', 'npm test')).toBe(true);
    expect(covers('npm test', 'npm test --watch')).toBe(false);
    expect(covers('npm test *', 'npm test')).toBe(true);
    expect(covers('npm test *', 'npm test --watch')).toBe(true);
    expect(covers('npm test *', 'npm testing')).toBe(false);
    for (const more of ['&& rm x', '; rm x', '| sh', '> file', '$(rm x)', '`rm x`', '\nrm x'])
      expect(covers('npm test *', `npm test ${more}`), more).toBe(false);
  });

  it('so many of the newest calls of its tool', () => {
    const lines = ['npm test', 'npm test --watch', 'ls', 'npm test && rm x'];
    const list = lines.map((command, n) => ({
      kind: 'tool_call' as const,
      call: call(`c${n}`, `Run ${command}`, 'execute', 'completed', { name: 'bash', args: { command } }),
    }));
    const state: State = [loaded(), updates(list)].reduce(reduce, INITIAL);
    expect(coverage(state.turns, 'bash', 'npm test *')).toEqual({ covered: 2, of: 4 });
    expect(coverage(state.turns, 'update_file', '*')).toEqual({ covered: 0, of: 0 });
  });
});

describe('where a command runs', () => {
  const folder = 'file:///home/ada/my%20shop';
  it('is said only when it is not the workspace itself', () => {
    expect(placeOf('/home/ada/my shop', folder)).toBeUndefined();
    expect(placeOf('/home/ada/my shop/packages/api/', folder)).toBe('packages/api');
    expect(placeOf('/etc', folder)).toBe('/etc');
    expect(placeOf('/home/ada/my shopping', folder)).toBe('/home/ada/my shopping');
  });
});
