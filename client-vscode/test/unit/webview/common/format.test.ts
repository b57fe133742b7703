import { describe, expect, it } from 'vitest';
import { notificationFor } from '../../../../src/approvals/notifications.ts';
import { diffOf, parseUnified } from '../../../../webview/common/diffLines.ts';
import { count, duration, escaped, lineSpan, relative, sentence } from '../../../../webview/common/format.ts';
import { accept, offerCommands, offerMentions, triggerAt } from '../../../../webview/composer/completion.ts';
import { COMMAND_APPROVAL, EDIT_APPROVAL } from '../../../harness/scenes.ts';

describe('words', () => {
  it('durations', () => {
    expect([200, 1000, 59_400, 61_000, 3_700_000].map(duration)).toEqual(['<1s', '1s', '59s', '1m 1s', '1h 1m']);
  });

  it('counts', () => {
    expect([999, 1000, 18_149, 130_000, 2_500_000].map(count)).toEqual(['999', '1k', '18.1k', '130k', '2.5M']);
  });

  it('lines of a selection, as the editor counts them', () => {
    const span = (start: [number, number], end: [number, number]) =>
      lineSpan({
        start: { line: start[0], character: start[1] },
        end: { line: end[0], character: end[1] },
      });
    expect(span([6, 0], [8, 4])).toBe('7–9');
    expect(span([6, 0], [8, 0])).toBe('7–8');
    expect(span([6, 2], [7, 0])).toBe('7');
    expect(span([6, 2], [6, 9])).toBe('7');
    expect(span([6, 0], [6, 0])).toBe('7');
  });

  it('characters that hide or reorder are written out (17)', () => {
    expect(escaped('rm \u202e-rf\u200b x\u0007')).toBe('rm \\u{202e}-rf\\u{200b} x\\u{7}');
    expect(escaped('plain: äöü 漢字 🐟')).toBe('plain: äöü 漢字 🐟');
  });

  it('paths below the folder are relative', () => {
    expect(relative('file:///home/ada/my%20shop/src/a.ts', 'file:///home/ada/my%20shop')).toBe('src/a.ts');
    expect(relative('file:///etc/hosts', 'file:///home/ada/shop')).toBe('/etc/hosts');
  });

  it('reasons are sentences, names keep their letters', () => {
    expect(sentence('it changes files')).toBe('It changes files.');
    expect(sentence('rm is not known to only read')).toBe('rm is not known to only read.');
  });
});

describe('a notification', () => {
  const command = (text: string) => ({
    ...COMMAND_APPROVAL,
    call: { ...COMMAND_APPROVAL.call, title: `Run ${text}` },
    preview: { kind: 'command' as const, command: text, cwd: '/', parsed: [] },
  });

  it('offers to allow what it shows whole', () => {
    expect(notificationFor(EDIT_APPROVAL)).toEqual({ message: 'Edit src/auth.ts?', allow: true });
    expect(notificationFor(command('npm test'))).toEqual({ message: 'Run npm test?', allow: true });
  });

  it('does not offer to allow a long command (16)', () => {
    const { message, allow } = notificationFor(command(`echo ${'x'.repeat(200)}`));
    expect(allow).toBe(false);
    expect(message.length).toBeLessThanOrEqual(120);
  });

  it('does not offer to allow several lines, or hidden characters (17)', () => {
    expect(notificationFor(command('echo a\nrm -rf b')).allow).toBe(false);
    expect(notificationFor(command('echo \u202e')).allow).toBe(false);
  });
});

describe('completion', () => {
  it.each([
    ['@', 1, 'mention', ''],
    ['see @src/a', 10, 'mention', 'src/a'],
    ['/rev', 4, 'command', 'rev'],
  ] as const)('%s', (text, caret, kind, query) => {
    expect(triggerAt(text, caret)).toMatchObject({ kind, query });
  });

  it.each(['mail@host', 'a /rev', 'done @src/a.ts '])('%s offers nothing', (text) => {
    expect(triggerAt(text, text.length)).toBeNull();
  });

  it('an offer takes the place of what was typed', () => {
    const trigger = triggerAt('see @src now', 8);
    expect(trigger && accept('see @src now', 8, trigger, 'src/auth.ts')).toEqual({
      text: 'see @src/auth.ts now',
      caret: 17,
    });
  });

  it('what is known answers a longer query at once', () => {
    const mention = (insert: string) => ({ kind: 'file' as const, uri: `file:///${insert}`, label: insert, insert });
    const known = new Map([['a', [mention('src/auth.ts'), mention('src/data.ts')]]]);
    expect(offerMentions(known, 'au').map((one) => one.insert)).toEqual(['src/auth.ts']);
    expect(offerMentions(known, 'zz')).toEqual([]);
  });

  it('commands that begin with the word stand first', () => {
    const command = (name: string) => ({ name, description: '', source: 'built-in' as const });
    expect(offerCommands([command('preview'), command('review')], 'rev').map((one) => one.name)).toEqual([
      'review',
      'preview',
    ]);
  });
});

describe('diffs', () => {
  it('are made from before and after', () => {
    const diff = diffOf({ uri: 'file:///a', before: 'a\nb\nc\n', after: 'a\nx\nc\n' });
    expect(diff).toMatchObject({ added: 1, removed: 1 });
    expect(diff.lines.map((line) => line.kind)).toEqual(['same', 'removed', 'added', 'same']);
  });

  it('of a new file are all added', () => {
    expect(diffOf({ uri: 'file:///a', before: null, after: 'a\nb\n' })).toMatchObject({ added: 2, removed: 0 });
  });

  it('are read from unified text, hunk by hunk', () => {
    const diff = parseUnified('--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -9 +9 @@\n-d\n+e\n');
    expect(diff.lines.map((line) => line.kind)).toEqual(['removed', 'added', 'same', 'gap', 'removed', 'added']);
  });
});
