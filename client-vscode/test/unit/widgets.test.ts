import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type ESTree, parseSync, Visitor } from 'vite';
import { expect, it } from 'vitest';
import { label, plain } from '../../src/widgets.ts';

const folder = path.resolve(import.meta.dirname, '../../src');

/** The names of VS Code's API that show a text in a widget of the editor. */
const WIDGETS = new Set([
  'showInformationMessage',
  'showWarningMessage',
  'showErrorMessage',
  'setStatusBarMessage',
  'showQuickPick',
  'createQuickPick',
  'showInputBox',
  'createInputBox',
  'createStatusBarItem',
  'withProgress',
  'TreeItem',
  'MarkdownString',
  'CodeLens',
  'Hover',
  'InlayHint',
]);
/** Properties of VS Code's objects that show a text; they may be set to fixed words only. */
const TEXTS = new Set(['tooltip', 'description', 'message', 'placeholder', 'prompt', 'badge']);

/** Whether the expression consists of literals, numbers and translations of literals. */
function isFixed(node: ESTree.Expression | ESTree.SpreadElement): boolean {
  switch (node.type) {
    case 'Literal':
      return true;
    case 'Identifier':
      return node.name === 'undefined';
    case 'ConditionalExpression':
      return isFixed(node.consequent) && isFixed(node.alternate);
    case 'CallExpression':
      return nameOf(node.callee) === 'viewBadge' || isTranslation(node);
    default:
      return false;
  }
}

function isTranslation({ callee, arguments: [first] }: ESTree.CallExpression): boolean {
  return /^(vscode\.)?l10n\.t$/.test(nameOf(callee)) && first?.type === 'Literal';
}

function nameOf(node: ESTree.Node): string {
  if (node.type === 'Identifier') return node.name;
  return node.type === 'MemberExpression' && !node.computed ? `${nameOf(node.object)}.${nameOf(node.property)}` : '';
}

/** The places in a module that give a text to a widget without `widgets.ts`. */
function leaks(source: string, name = 'module.ts'): string[] {
  const found: string[] = [];
  const report = (node: ESTree.Node, what: string) =>
    found.push(`${name}:${source.slice(0, node.start).split('\n').length} ${what}`);
  const named = (node: ESTree.Node) => node.type === 'Identifier' && WIDGETS.has(node.name) && report(node, node.name);
  new Visitor({
    MemberExpression: ({ object, property, computed }) => {
      if (!computed) named(property);
      else if (/^(vscode\.)?window$/.test(nameOf(object))) report(property, 'computed member of window');
    },
    Property: ({ key, value }) => value.type === 'Identifier' && key.type === 'Identifier' && named(key),
    NewExpression: ({ callee }) => void named(callee),
    AssignmentExpression: ({ left, right }) => {
      const set = nameOf(left as ESTree.Node)
        .split('.')
        .at(-1);
      if (left.type === 'MemberExpression' && TEXTS.has(set ?? '') && !isFixed(right)) report(left, `.${set} =`);
    },
  }).visit(parseSync(name, source).program);
  return found;
}

it('no module but widgets.ts gives a text to a widget of VS Code', () => {
  const modules = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && name !== 'widgets.ts',
  );
  expect(modules.length).toBeGreaterThan(30);
  expect(modules.flatMap((name) => leaks(readFileSync(path.join(folder, name), 'utf8'), name))).toEqual([]);
});

it.each([
  ['vscode.window.showInformationMessage(question)', 'showInformationMessage'],
  ['const { showErrorMessage: show } = vscode.window; show(x)', 'showErrorMessage'],
  ['const { window } = vscode; window.showQuickPick(items)', 'showQuickPick'],
  ["vscode.window['show' + kind + 'Message'](x)", 'computed member of window'],
  ['new vscode.MarkdownString(text)', 'MarkdownString'],
  ['new TreeItem(title)', 'TreeItem'],
  ['item.tooltip = request.title', '.tooltip ='],
  ['const item: vscode.TreeItem = treeItem(x)', undefined],
  ["view.badge = vscode.l10n.t('{0} waiting', n)", undefined],
])('the search finds a leak: %s', (source, expected) => {
  expect(leaks(source)).toEqual(expected === undefined ? [] : [`module.ts:1 ${expected}`]);
});

/** As VS Code finds links in notifications, and icons in labels. */
const LINK = /\[([^\]]+)\]\(((?:https?:\/\/|command:|file:)[^)\s]+)(?: (["'])(.+?)(\3))?\)/i;
const ICON = /(\\)?\$\([A-Za-z0-9-]+(?:~[A-Za-z0-9-]+)?\)/g;

it.each([
  '[Sign in](command:workbench.action.terminal.sendSequence?%7B%7D)',
  '[a](https://evil.example "title")',
  '[a]](file:///etc/passwd)',
  '[[a](x)](command:y)',
  '[a]\u200b(command:y)',
])('no text is a link: %s', (text) => {
  expect(plain(text)).not.toMatch(LINK);
  expect(label(text)).not.toMatch(LINK);
});

it('a label shows an icon as text, and other text as it is', () => {
  const icons = [...label('$(check) safe \\$(error) $(sync~spin)').matchAll(ICON)];
  expect(icons.map(([, backslash]) => backslash)).toEqual(['\\', '\\', '\\']);
  expect(label('echo $(date +%s) > f[0]')).toBe('echo $(date +%s) > f[0]');
});

it('line breaks and hidden characters are visible', () => {
  expect(plain('ls\nrm x\u202ey')).toBe('ls ⏎ rm x\\u{202e}y');
});
