// Lists the npm packages inside the bundles, in CycloneDX format, from npm's own listing of the lock file.
import { execFileSync } from 'node:child_process';

/** The packages that these input files of a bundle belong to. */
function packagesOf(inputs) {
  const names = inputs.map((file) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  return new Set(names.filter((name) => name !== undefined));
}

/** The bill of materials as text. Fails if a bundled package is not in the lock file. */
export function billOfMaterials(root, inputs) {
  const args = ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx', '--loglevel=error'];
  const all = JSON.parse(execFileSync('npm', args, { cwd: root, maxBuffer: 64 << 20, encoding: 'utf8' }));
  const bundled = packagesOf([...inputs, 'node_modules/@vscode/codicons/']);
  const fullName = ({ group, name }) => (group ? `${group}/${name}` : name);
  const components = all.components.filter((component) => bundled.has(fullName(component)));
  const listed = new Set(components.map(fullName));
  const missing = [...bundled].filter((name) => !listed.has(name));
  if (missing.length > 0) throw new Error(`not in package-lock.json: ${missing.join(', ')}`);
  const refs = new Set([all.metadata.component['bom-ref'], ...components.map((component) => component['bom-ref'])]);
  const dependencies = all.dependencies
    .filter(({ ref }) => refs.has(ref))
    .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((one) => refs.has(one)) }));
  return `${JSON.stringify({ ...all, components, dependencies }, null, 2)}\n`;
}
