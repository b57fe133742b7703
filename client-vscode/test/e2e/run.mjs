// Runs the e2e suite. Installs what it needs, and packages the extension if there is no package.
//   npm run e2e                everything
//   npm run e2e -- flow view   only test/e2e/flow.test.ts and test/e2e/view-*.test.ts
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const client = path.resolve(here, '../..');
const wanted = process.argv.slice(2);

execFileSync(path.join(here, 'install.sh'), { stdio: 'inherit' });
const bin = path.resolve(client, '../.e2e/bin');
const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
if (!existsSync(path.join(client, 'pilotfish.vsix'))) {
  const made = spawnSync('npm', ['run', '--silent', 'package'], { cwd: client, stdio: 'inherit', env });
  if (made.status !== 0) process.exit(1);
}
mkdirSync(path.resolve(client, '../.e2e/shots'), { recursive: true });

const files = readdirSync(here)
  .filter((name) => name.endsWith('.test.ts'))
  .filter((name) => wanted.length === 0 || wanted.some((word) => name.startsWith(word)));
/** Tests of the view in a plain browser page, without VS Code. */
const isBare = (name) => name.startsWith('view-');

/** Runs these files one after the other. Their output is shown at once, or returned at the end. */
function run(names, shownAtOnce) {
  if (names.length === 0) return Promise.resolve(0);
  const args = [
    '--test',
    '--test-concurrency=1',
    '--test-reporter=spec',
    ...names.map((name) => path.join(here, name)),
  ];
  const child = spawn(path.join(bin, 'node'), args, {
    cwd: client,
    env,
    stdio: ['ignore', shownAtOnce ? 'inherit' : 'pipe', 'inherit'],
  });
  const printed = [];
  child.stdout?.on('data', (piece) => printed.push(piece));
  return new Promise((done) => {
    child.on('close', (code) => done({ code: code ?? 1, printed: Buffer.concat(printed) }));
  });
}

// Each story starts its own VS Code and browser, so stories run one after the other. The view tests run in parallel.
const bare = run(files.filter(isBare), files.every(isBare));
const stories = await run(
  files.filter((name) => !isBare(name)),
  true,
);
const beside = await bare;
if (beside.printed) process.stdout.write(beside.printed);
process.exit((stories.code ?? 0) || (beside.code ?? 0));
