import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

interface Locked {
  optionalDependencies?: Record<string, string>;
  integrity?: string;
  optional?: boolean;
  os?: string[];
  cpu?: string[];
  libc?: string[];
}

const text = readFileSync(path.resolve(import.meta.dirname, '../../package-lock.json'), 'utf8');
const { packages } = JSON.parse(text) as { packages: Record<string, Locked> };

/** Whether npm would ever install it on Linux with glibc, where the extension is built and its tests are run. */
function isForHere({ os = ['linux'], cpu = ['x64'], libc = ['glibc'] }: Locked): boolean {
  return os.includes('linux') && cpu.includes('x64') && libc.includes('glibc');
}

it('what is installed where the extension is built is what was locked, to the byte', () => {
  const unsealed = Object.entries(packages).filter(([place, { integrity }]) => place !== '' && !integrity);
  expect(unsealed.filter(([, locked]) => isForHere(locked) || !locked.optional).map(([place]) => place)).toEqual([]);
});

it('the lock names the optional packages of every platform, without which `npm ci` refuses it', () => {
  const missing = Object.entries(packages).flatMap(([place, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !packages[`node_modules/${name}`] && !packages[`${place}/node_modules/${name}`],
    ),
  );
  expect(missing).toEqual([]);
});
