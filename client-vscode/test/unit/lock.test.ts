import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

interface Locked {
  optionalDependencies?: Record<string, string>;
}

it('the lock names the optional packages of every platform, without which `npm ci` refuses it', () => {
  const text = readFileSync(path.resolve(import.meta.dirname, '../../package-lock.json'), 'utf8');
  const packages = (JSON.parse(text) as { packages: Record<string, Locked> }).packages;
  const missing = Object.entries(packages).flatMap(([place, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter(
      (name) => !packages[`node_modules/${name}`] && !packages[`${place}/node_modules/${name}`],
    ),
  );
  expect(missing).toEqual([]);
});
