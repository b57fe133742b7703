import { describe, expect, it } from 'vitest';
import { accept, matchCommands, matchMentions, triggerAt } from '../../../../webview/composer/completion.ts';

describe('completion', () => {
  it.each([
    ['@', 1, 'mention', ''],
    ['see @src/a', 10, 'mention', 'src/a'],
    ['/rev', 4, 'command', 'rev'],
  ] as const)('%s', (text, caret, kind, query) => {
    expect(triggerAt(text, caret)).toMatchObject({ kind, query });
  });

  it.each(['mail@host', 'a /rev', 'done @src/a.ts '])('%s has no trigger', (text) => {
    expect(triggerAt(text, text.length)).toBeNull();
  });

  it('replaces the typed text', () => {
    const trigger = triggerAt('see @src now', 8);
    expect(trigger && accept('see @src now', 8, trigger, 'src/auth.ts')).toEqual({
      text: 'see @src/auth.ts now',
      caret: 17,
    });
  });

  it('filters cached results for a longer query', () => {
    const mention = (insert: string) => ({ kind: 'file' as const, uri: `file:///${insert}`, label: insert, insert });
    const known = new Map([['a', [mention('src/auth.ts'), mention('src/data.ts')]]]);
    expect(matchMentions(known, 'au').map((one) => one.insert)).toEqual(['src/auth.ts']);
    expect(matchMentions(known, 'zz')).toEqual([]);
  });

  it('lists every command, those of the user first', () => {
    const built = Array.from({ length: 12 }, (_, n) => ({
      name: `b${n}`,
      description: '',
      source: 'built-in' as const,
    }));
    const own = { name: 'zebra', description: '', source: 'user' as const };
    expect(matchCommands([...built, own], '').map((one) => one.name)).toEqual([
      'zebra',
      ...built.map(({ name }) => name),
    ]);
  });

  it('lists commands that start with the query first', () => {
    const command = (name: string) => ({ name, description: '', source: 'built-in' as const });
    expect(matchCommands([command('preview'), command('review')], 'rev').map((one) => one.name)).toEqual([
      'review',
      'preview',
    ]);
  });
});
