import { describe, expect, it } from 'vitest';
import { coverage, covers } from '../../../../webview/approvals/ruleCoverage.ts';
import { reduce } from '../../../../webview/state/reduce.ts';
import { INITIAL, type State } from '../../../../webview/state/state.ts';
import { call, loaded, updates } from '../../../harness/scenes.ts';

describe('a rule', () => {
  it('matches its exact line, and with a star also arguments, but no chained commands', () => {
    expect(covers('npm test', 'npm test')).toBe(true);
    expect(covers('npm test', 'npm test --watch')).toBe(false);
    expect(covers('npm test *', 'npm test')).toBe(true);
    expect(covers('npm test *', 'npm test --watch')).toBe(true);
    expect(covers('npm test *', 'npm testing')).toBe(false);
    for (const more of ['&& rm x', '; rm x', '| sh', '> file', '$(rm x)', '`rm x`', '\nrm x'])
      expect(covers('npm test *', `npm test ${more}`), more).toBe(false);
  });

  it('matches a number of the newest calls of its tool', () => {
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
