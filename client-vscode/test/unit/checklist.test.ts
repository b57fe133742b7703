import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const folder = path.resolve(import.meta.dirname, '../e2e');
const POINTS = 44;

it('every point of the UX checklist has one numbered test in the e2e suite', () => {
  const numbered = readdirSync(folder)
    .filter((name) => name.endsWith('.test.ts'))
    .flatMap((name) => [
      ...readFileSync(path.join(folder, name), 'utf8').matchAll(/\b(?:test|step)\(\s*['"`](\d+)\. /g),
    ])
    .map(([, number]) => Number(number))
    .sort((a, b) => a - b);
  expect(numbered).toEqual(Array.from({ length: POINTS }, (_, n) => n + 1));
});

it('no test of the e2e suite is skipped', () => {
  for (const name of readdirSync(folder).filter((one) => one.endsWith('.test.ts'))) {
    expect(readFileSync(path.join(folder, name), 'utf8'), name).not.toMatch(
      /\b(?:test|step|describe)\.(?:skip|only|todo)\b/,
    );
  }
});
