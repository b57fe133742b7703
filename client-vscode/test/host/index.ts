/** Runs the mocha tests of this folder inside VS Code's extension host; bundled by host.test.ts. */

import Mocha from 'mocha';
import './editor.suite.ts';
import './extension.suite.ts';

export function run(): Promise<void> {
  const mocha = new Mocha({ ui: 'bdd', timeout: 30_000, reporter: 'spec', color: false });
  mocha.suite.emit('pre-require', globalThis, '', mocha);
  for (const define of (globalThis as unknown as { suites: (() => void)[] }).suites) define();
  return new Promise((resolve, reject) => {
    mocha.run((failures) => (failures > 0 ? reject(new Error(`${failures} tests failed`)) : resolve()));
  });
}
