import assert from 'node:assert/strict';
import * as vscode from 'vscode';
import { suite } from './suites.ts';

interface Manifest {
  contributes: {
    commands: { command: string }[];
    configuration: { properties: Record<string, { scope?: string; markdownDescription?: string }> }[];
    keybindings: { key: string; command: string }[];
  };
}

const extension = () => {
  const found = vscode.extensions.getExtension('pilotfish.pilotfish');
  assert.ok(found, 'the extension is installed');
  return found;
};

suite(() => {
  describe('the extension', () => {
    it('comes up by itself', async () => {
      await extension().activate();
      assert.ok(extension().isActive);
    });

    it('has every command that it promises', async () => {
      await extension().activate();
      const there = new Set(await vscode.commands.getCommands(true));
      const { contributes } = extension().packageJSON as Manifest;
      assert.deepEqual(
        contributes.commands.map(({ command }) => command).filter((command) => !there.has(command)),
        [],
      );
    });

    it('lets no workspace set an endpoint, a key, a rule, a mode or a command', () => {
      const { contributes } = extension().packageJSON as Manifest;
      const settings = Object.assign({}, ...contributes.configuration.map(({ properties }) => properties)) as Record<
        string,
        { scope?: string }
      >;
      for (const name of [
        'baseUrl',
        'rules',
        'mode',
        'server.command',
        'server.environment',
        'storage',
        'mcpConfig',
        'sandbox',
        'network',
        'budget.tokens',
        'budget.cost',
      ]) {
        assert.equal(settings[`pilotfish.${name}`]?.scope, 'machine', name);
      }
    });

    it('describes every setting in words', () => {
      const { contributes } = extension().packageJSON as Manifest;
      for (const { properties } of contributes.configuration) {
        for (const [name, setting] of Object.entries(properties)) {
          assert.ok(setting.markdownDescription && !setting.markdownDescription.startsWith('%'), name);
        }
      }
    });

    it('serves what a diff shows, and keeps what is written beside a question', async () => {
      const uri = vscode.Uri.from({ scheme: 'pilotfish-shown', path: '/nothing', query: '0' });
      assert.equal((await vscode.workspace.openTextDocument(uri)).getText(), '');
      assert.equal(vscode.workspace.fs.isWritableFileSystem('pilotfish-proposal'), true);
    });

    it('runs its commands while nothing is open', async () => {
      await vscode.commands.executeCommand('pilotfish.newSession');
      await vscode.commands.executeCommand('pilotfish.sessions.refresh');
    });
  });
});
