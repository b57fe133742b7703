import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const client = path.resolve(import.meta.dirname, '../..');
const read = (name: string) => JSON.parse(readFileSync(path.join(client, name), 'utf8')) as Record<string, string>;

/** What a translation must keep: the places of values, links to commands, and code. */
const fixed = (text: string) => (text.match(/\{\d\}|\(command:[\w.]+\)|`[^`]*`|\n/g) ?? []).sort();

/** Code that is prose in the English text. */
const TRANSLATED_CODE: Record<string, string> = { '`provider:model`': '`anbieter:modell`', '`Ctrl+Z`': '`Strg+Z`' };

describe.each([
  ['l10n/bundle.l10n.json', 'l10n/bundle.l10n.de.json'],
  ['package.nls.json', 'package.nls.de.json'],
])('%s in German', (source, translation) => {
  const english = read(source);
  const german = read(translation);

  it('has the same keys in the same order', () => {
    expect(Object.keys(german)).toEqual(Object.keys(english));
  });

  it('keeps values, commands and code, and leaves nothing empty', () => {
    const kept = (text: string) =>
      fixed(text)
        .map((part) => TRANSLATED_CODE[part] ?? part)
        .sort();
    const wrong = Object.entries(english).filter(
      ([key, text]) => !german[key]?.trim() || fixed(german[key]).join() !== kept(text).join(),
    );
    expect(wrong.map(([key]) => key)).toEqual([]);
  });
});

it('every text of the manifest is in the table', () => {
  const manifest = readFileSync(path.join(client, 'package.json'), 'utf8');
  const used = [...manifest.matchAll(/"%([\w.]+)%"/g)].map(([, key]) => key ?? '');
  expect([...new Set(used)].sort()).toEqual(Object.keys(read('package.nls.json')).sort());
});
