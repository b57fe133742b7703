import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');

/** The bill of materials that the build writes for bundles made of these files. */
function billOf(...inputs: string[]): { bomFormat: string; components: { name: string; group?: string }[] } {
  const script = `import { billOfMaterials } from './scripts/sbom.mjs';
    process.stdout.write(billOfMaterials(process.cwd(), ${JSON.stringify(inputs)}));`;
  const words = ['--input-type=module', '--eval', script];
  return JSON.parse(execFileSync(process.execPath, words, { cwd: root, encoding: 'utf8', stdio: 'pipe' }));
}

it('the bill of materials lists exactly the packages inside the bundles', () => {
  const bill = billOf('src/extension.ts', 'node_modules/preact/dist/preact.mjs', 'node_modules/@preact/signals/x.mjs');
  expect(bill.bomFormat).toBe('CycloneDX');
  const names = bill.components.map(({ group, name }) => (group ? `${group}/${name}` : name));
  expect(names.sort()).toEqual(['@preact/signals', '@vscode/codicons', 'preact']);
});

it('a bundled package that is not locked fails the build', () => {
  expect(() => billOf('node_modules/left-pad/index.js')).toThrow('not in package-lock.json: left-pad');
});
