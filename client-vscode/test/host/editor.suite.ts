import assert from 'node:assert/strict';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import * as vscode from 'vscode';
import { diagnostics, open, rangeOf, save, workspaceEdit } from '../../src/editor/editorRequests.ts';
import { suite } from './suites.ts';

async function file(text: string | Uint8Array, name = 'a.txt'): Promise<vscode.Uri> {
  const folder = await mkdtemp(path.join(tmpdir(), 'pilotfish-host-'));
  await writeFile(path.join(folder, name), text);
  return vscode.Uri.file(path.join(folder, name));
}

async function insert(uri: vscode.Uri, text: string): Promise<void> {
  const edit = new vscode.WorkspaceEdit();
  edit.insert(uri, new vscode.Position(0, 0), text);
  assert.ok(await vscode.workspace.applyEdit(edit));
}

suite(() => {
  describe('editor/open', () => {
    it('opens a document without a tab and without moving the focus', async () => {
      const uri = await file('one\n');
      const before = vscode.window.tabGroups.all.flatMap((group) => group.tabs).length;
      const { opened, failed } = await open([uri.toString()]);
      assert.deepEqual(opened, [{ uri: uri.toString(), version: 1, dirty: false }]);
      assert.deepEqual(failed, []);
      assert.ok(vscode.workspace.textDocuments.some((document) => document.uri.toString() === uri.toString()));
      assert.equal(vscode.window.tabGroups.all.flatMap((group) => group.tabs).length, before);
    });

    it('reports why a document cannot be opened', async () => {
      const { opened, failed } = await open(['file:///no/such/file']);
      assert.deepEqual(opened, []);
      assert.equal(failed?.length, 1);
    });
  });

  describe('editor/save', () => {
    it('saves a hidden document so that the file equals the text', async () => {
      const uri = await file('one\n');
      await open([uri.toString()]);
      await insert(uri, 'zero\n');
      assert.equal(await readFile(uri.fsPath, 'utf8'), 'one\n');
      assert.deepEqual(await save([uri.toString()]), { saved: [uri.toString()], failed: [] });
      assert.equal(await readFile(uri.fsPath, 'utf8'), 'zero\none\n');
    });

    it('ignores a byte order mark', async () => {
      const uri = await file('\ufeffone\n');
      assert.deepEqual((await save([uri.toString()])).saved, [uri.toString()]);
    });

    it('does not report a clean document as saved if its file has changed', async () => {
      const uri = await file('one\n');
      const document = await vscode.workspace.openTextDocument(uri);
      await insert(uri, 'mine\n');
      await writeFile(uri.fsPath, 'theirs, of another length\n');
      const { saved, failed } = await save([uri.toString()]);
      assert.ok(
        saved.length === 0 ? failed?.length === 1 : (await readFile(uri.fsPath, 'utf8')) === document.getText(),
      );
    });
  });

  describe('editor/diagnostics', () => {
    it('uses LSP severities, which start at one', async () => {
      const uri = await file('x\n');
      const collection = vscode.languages.createDiagnosticCollection('test');
      const range = new vscode.Range(0, 0, 0, 1);
      const problem = new vscode.Diagnostic(range, 'bad', vscode.DiagnosticSeverity.Warning);
      problem.source = 'test';
      problem.code = { value: 'E1', target: uri };
      collection.set(uri, [problem]);
      const { documents } = await diagnostics({ uri: uri.toString() });
      assert.deepEqual(documents[0]?.diagnostics, [
        {
          range: rangeOf(range),
          message: 'bad',
          severity: 2,
          code: 'E1',
          codeDescription: { href: uri.toString(true) },
          source: 'test',
        },
      ]);
      collection.dispose();
    });

    it('waits for diagnostics of a version, but not forever', async () => {
      const uri = await file('x\n');
      const { documents } = await diagnostics({ uri: uri.toString(), waitForVersion: 99, timeoutMs: 100 });
      assert.deepEqual(documents[0]?.diagnostics, []);
    });
  });

  describe('workspace edits', () => {
    it('are converted to text changes', () => {
      const edit = new vscode.WorkspaceEdit();
      const uri = vscode.Uri.file('/a');
      edit.replace(uri, new vscode.Range(0, 0, 0, 1), 'b');
      const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 1 } };
      assert.deepEqual(workspaceEdit(edit), { changes: { [uri.toString()]: [{ range, newText: 'b' }] } });
    });
  });
});
