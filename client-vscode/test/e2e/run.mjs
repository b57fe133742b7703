// The e2e suite: installs what it needs, packages the extension when there is no package, and runs every story.
//   npm run e2e                everything
//   npm run e2e -- flow view   only test/e2e/flow.test.ts and test/e2e/view.test.ts
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const client = path.resolve(here, '../..');
const wanted = process.argv.slice(2);

execFileSync(path.join(here, 'install.sh'), { stdio: 'inherit' });
const bin = path.resolve(client, '../.e2e/bin');
const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
const run = (command, args) => spawnSync(command, args, { cwd: client, stdio: 'inherit', env }).status ?? 1;
if (!existsSync(path.join(client, 'pilotfish.vsix')) && run('npm', ['run', '--silent', 'package']) !== 0)
  process.exit(1);
mkdirSync(path.resolve(client, '../.e2e/shots'), { recursive: true });
const files = readdirSync(here)
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => wanted.length === 0 || wanted.some((word) => name.startsWith(word)))
  .map((name) => path.join(here, name));
// One after the other: each story drives a VS Code and a browser of its own.
process.exit(run(path.join(bin, 'node'), ['--test', '--test-concurrency=1', '--test-reporter=spec', ...files]));
