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
    it('activates on startup', async () => {
      await extension().activate();
      assert.ok(extension().isActive);
    });

    it('registers every declared command', async () => {
      await extension().activate();
      const there = new Set(await vscode.commands.getCommands(true));
      const { contributes } = extension().packageJSON as Manifest;
      assert.deepEqual(
        contributes.commands.map(({ command }) => command).filter((command) => !there.has(command)),
        [],
      );
    });

    it('declares the endpoint, key, rules, mode and command as machine settings', () => {
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

    it('rejects workspace values for the endpoint, rules, mode and command', async () => {
      const configuration = vscode.workspace.getConfiguration('pilotfish');
      const wishes: Record<string, unknown> = {
        baseUrl: 'http://evil.example',
        rules: [{ decision: 'allow' }],
        mode: 'auto',
        'server.command': ['evil'],
      };
      for (const [name, value] of Object.entries(wishes)) {
        await assert.rejects(
          async () => configuration.update(name, value, vscode.ConfigurationTarget.Workspace),
          /Unable to write/,
          name,
        );
      }
    });

    it('ignores such values in a workspace settings file', async () => {
      const [folder] = vscode.workspace.workspaceFolders ?? [];
      assert.ok(folder);
      const file = vscode.Uri.joinPath(folder.uri, '.vscode/settings.json');
      const text = JSON.stringify({ 'pilotfish.baseUrl': 'http://evil.example', 'pilotfish.mode': 'auto' });
      await vscode.workspace.fs.writeFile(file, Buffer.from(text));
      // VS Code has read the file when a setting that a workspace may change has its value.
      const heard = new Promise<void>((done) => {
        const subscription = vscode.workspace.onDidChangeConfiguration(() => {
          if (!vscode.workspace.getConfiguration('editor').get('rulers')?.toString()) return;
          subscription.dispose();
          done();
        });
      });
      await vscode.workspace.getConfiguration('editor').update('rulers', [77], vscode.ConfigurationTarget.Workspace);
      await heard;
      const configuration = vscode.workspace.getConfiguration('pilotfish');
      assert.equal(configuration.get('baseUrl'), '');
      assert.equal(configuration.get('mode'), 'ask');
      await vscode.workspace.fs.delete(vscode.Uri.joinPath(folder.uri, '.vscode'), { recursive: true });
    });

    it('declares limited support for untrusted and none for virtual workspaces', () => {
      const { capabilities } = extension().packageJSON as {
        capabilities: { untrustedWorkspaces: { supported: string }; virtualWorkspaces: { supported: boolean } };
      };
      assert.equal(capabilities.untrustedWorkspaces.supported, 'limited');
      assert.equal(capabilities.virtualWorkspaces.supported, false);
    });

    it('describes every setting', () => {
      const { contributes } = extension().packageJSON as Manifest;
      for (const { properties } of contributes.configuration) {
        for (const [name, setting] of Object.entries(properties)) {
          assert.ok(setting.markdownDescription && !setting.markdownDescription.startsWith('%'), name);
        }
      }
    });

    it('provides the documents of diffs', async () => {
      const uri = vscode.Uri.from({ scheme: 'pilotfish-shown', path: '/nothing', query: '0' });
      assert.equal((await vscode.workspace.openTextDocument(uri)).getText(), '');
      assert.equal(vscode.workspace.fs.isWritableFileSystem('pilotfish-proposal'), true);
    });

    it('runs its commands without an open editor', async () => {
      await vscode.commands.executeCommand('pilotfish.newSession');
      await vscode.commands.executeCommand('pilotfish.sessions.refresh');
    });
  });
});
