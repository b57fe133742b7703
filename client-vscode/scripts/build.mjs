// Bundles the extension (Node, CommonJS) and the webview (browser) into dist/.
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';
import { billOfMaterials } from './sbom.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const production = process.argv.includes('--production');
const watch = process.argv.includes('--watch');

const shared = {
  absWorkingDir: root,
  bundle: true,
  minify: production,
  sourcemap: !production,
  logLevel: 'warning',
  legalComments: 'linked',
};
const builds = [
  {
    ...shared,
    entryPoints: { extension: 'src/extension.ts' },
    outExtension: { '.js': '.cjs' },
    outdir: 'dist',
    platform: 'node',
    format: 'cjs',
    target: 'node20',
    external: ['vscode'],
    mainFields: ['module', 'main'],
  },
  {
    ...shared,
    entryPoints: { webview: 'webview/main.tsx', style: 'webview/style.css', math: 'webview/style/math.css' },
    outdir: 'dist',
    platform: 'browser',
    // Modules that are imported on demand become files of their own.
    format: 'esm',
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    assetNames: 'fonts/[name]',
    target: 'chrome128',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    external: ['*.ttf', '*.woff'],
    loader: { '.ttf': 'copy', '.woff2': 'file' },
  },
];

if (production) await rm(path.join(root, 'dist'), { recursive: true, force: true });
await mkdir(path.join(root, 'dist'), { recursive: true });
await cp(path.join(root, 'node_modules/@vscode/codicons/dist/codicon.ttf'), path.join(root, 'dist/codicon.ttf'));
if (watch) {
  for (const build of builds) await (await esbuild.context(build)).watch();
} else {
  const built = await Promise.all(builds.map((build) => esbuild.build({ ...build, metafile: true })));
  const inputs = built.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  // What the installer needs, and what the bundles are made of.
  for (const name of ['runtime.txt', 'local.txt', 'uv.txt'])
    await cp(path.join(root, '../requirements', name), path.join(root, 'dist', name));
  await writeFile(path.join(root, 'sbom-client.cdx.json'), billOfMaterials(root, inputs));
}
