// Every string of the extension and the view that can be translated, into l10n/bundle.l10n.json.
//   node scripts/l10n.mjs          write it
//   node scripts/l10n.mjs --check  fail when it is stale
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const client = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const bundle = path.join(client, 'l10n/bundle.l10n.json');

/** The first argument of every call of `l10n.t`, which must be one literal. */
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
  console.error('l10n/bundle.l10n.json is stale: run `npm run l10n`');
  process.exit(1);
}
writeFileSync(bundle, text);
