// Collects the translatable strings of the extension and the webview in l10n/bundle.l10n.json.
//   node scripts/l10n.mjs          writes the file
//   node scripts/l10n.mjs --check  fails if the file is outdated
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const client = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const bundle = path.join(client, 'l10n/bundle.l10n.json');

/** Matches the first argument of every `l10n.t` call, which must be a string literal. */
const CALL = /\bl10n\s*\.t\(\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g;

function strings(folder) {
  return readdirSync(path.join(client, folder), { recursive: true })
    .filter((name) => /\.tsx?$/.test(name))
    .flatMap((name) => [...readFileSync(path.join(client, folder, name), 'utf8').matchAll(CALL)])
    .map(([, single, double]) => (single ?? double).replace(/\\(['"\\])/g, '$1'));
}

const found = [...new Set([...strings('src'), ...strings('webview')])].sort();
const text = `${JSON.stringify(Object.fromEntries(found.map((one) => [one, one])), null, 2)}\n`;
if (process.argv.includes('--check')) {
  if (readFileSync(bundle, 'utf8') === text) process.exit(0);
  console.error('l10n/bundle.l10n.json is outdated: run `npm run l10n`');
  process.exit(1);
}
writeFileSync(bundle, text);
