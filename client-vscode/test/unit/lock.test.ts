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

/** Whether npm installs the package on Linux with glibc, where the extension is built and tested. */
function isForHere({ os = ['linux'], cpu = ['x64'], libc = ['glibc'] }: Locked): boolean {
  return os.includes('linux') && cpu.includes('x64') && libc.includes('glibc');
}

it('every package that the build installs has a checksum in the lock file', () => {
  const unsealed = Object.entries(packages).filter(([place, { integrity }]) => place !== '' && !integrity);
  expect(unsealed.filter(([, locked]) => isForHere(locked) || !locked.optional).map(([place]) => place)).toEqual([]);
});

it('the lock file lists the optional packages of every platform, which `npm ci` requires', () => {
  const missing = Object.entries(packages).flatMap(([place, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !packages[`node_modules/${name}`] && !packages[`${place}/node_modules/${name}`],
    ),
  );
  expect(missing).toEqual([]);
});
