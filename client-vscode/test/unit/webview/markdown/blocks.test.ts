// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest';
import { BlockReader, renderHtml } from '../../../../webview/markdown/blocks.ts';
import { highlightLines } from '../../../../webview/markdown/highlight.ts';

const TEXT = `# Title

A paragraph with **bold** and \`code\`.

- one
- two

\`\`\`ts
const a = \`x
y\`;
\`\`\`

| a | b |
| - | - |
| 1 | 2 |

The end.
`;

describe('blocks', () => {
  it('before the last one do not change while text is added', () => {
    const reader = new BlockReader();
    let before: readonly unknown[] = [];
    for (let length = 1; length <= TEXT.length; length += 1) {
      const blocks = reader.read(TEXT.slice(0, length), false);
      const settled = before.slice(0, -1);
      expect(blocks.slice(0, settled.length)).toEqual(settled);
      before = blocks;
    }
  });

  it('do not depend on how the text was split', () => {
    const slow = new BlockReader();
    for (let length = 1; length < TEXT.length; length += 1) slow.read(TEXT.slice(0, length), false);
    expect(slow.read(TEXT, true)).toEqual(new BlockReader().read(TEXT, true));
  });

  it('keep their identity once finished', () => {
    const reader = new BlockReader();
    const first = reader.read('One.\n\nTwo', false)[0];
    expect(reader.read('One.\n\nTwo.\n\nThree', false)[0]).toBe(first);
  });

  it('do not show a partial fence', () => {
    expect(new BlockReader().read('Text\n\n``', false)).toEqual([{ kind: 'html', raw: 'Text' }]);
    expect(new BlockReader().read('Text\n\n```ty', false)).toEqual([{ kind: 'html', raw: 'Text' }]);
  });

  it('show an open fence as code', () => {
    const blocks = new BlockReader().read('```ts\nconst a = 1;\ncon', false);
    expect(blocks).toEqual([{ kind: 'code', code: 'const a = 1;\ncon', language: 'ts', info: 'ts', closed: false }]);
  });

  it('use link definitions at the end of the text', () => {
    const blocks = new BlockReader().read('See [the docs][d].\n\nMore.\n\n[d]: https://example.com/x\n', true);
    expect(blocks[0]?.kind === 'html' && renderHtml(blocks[0].raw, false)).toContain('href="https://example.com/x"');
  });
});

describe('html', () => {
  it('shows an image as a link and loads nothing', () => {
    const html = renderHtml('![a cat](https://example.com/cat.png?q=secret)', false);
    expect(html).not.toContain('<img');
    expect(html).toContain('href="https://example.com/cat.png?q=secret"');
  });

  it.each([
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '<iframe src="https://example.com">',
    '<b onclick="x()">hi</b>',
    '<style>body{}</style>',
  ])('%s is text', (raw) => {
    expect(renderHtml(raw, false)).not.toMatch(/<(script|img|iframe|b |style)/);
  });

  it.each(['javascript:alert(1)', 'data:text/html,x', 'vscode://x/y', 'command:workbench.action.x'])(
    'a link to %s leads nowhere',
    (href) => {
      expect(renderHtml(`[x](${href})`, false)).not.toContain('href=');
    },
  );

  it('links a path with a line', () => {
    expect(renderHtml('see `src/auth.ts:42`', false)).toContain('href="src/auth.ts:42"');
    expect(renderHtml('see `isExpired`', false)).not.toContain('href');
  });

  it('closes open emphasis while text is added', () => {
    expect(renderHtml('this is **bo', true)).toContain('<strong>bo</strong>');
  });
});

describe('beyond GFM', () => {
  /** The HTML after a first paragraph: happy-dom loses the first element that DOMPurify returns. */
  const render = (raw: string) => renderHtml(`First.\n\n${raw}`, false).replace(/^(?:<p>)?First\.(?:<\/p>)?\n?/, '');

  it.each([
    ['It costs $5 or $10.', []],
    ['in $HOME/$USER', []],
    ['$x^2$ and \\(y\\)', ['x^2', 'y']],
    ['`$x$` is code', []],
  ])('finds the formulas of %s', (raw, formulas) => {
    const html = renderHtml(raw, false);
    expect([...html.matchAll(/<code class="math">(.*?)<\/code>/g)].map((found) => found[1])).toEqual(formulas);
  });

  it('reads a formula on its own lines as a block, when it is complete', () => {
    expect(new BlockReader().read('a\n\n$$\nx\n$$\n', true)[1]).toEqual({ kind: 'math', tex: 'x' });
    expect(new BlockReader().read('a\n\n$$\nx', false)[1]).toEqual({ kind: 'html', raw: '$$\nx' });
  });

  it('shows <details> with Markdown inside, also nested and while it is streamed', () => {
    const raw =
      '<details>\n<summary>A **b**</summary>\n\n- one\n\n<details><summary>C</summary>d</details>\n\n</details>\n';
    const html = render(raw).replaceAll('\n', '');
    expect(html).toBe(
      '<details aria-label="A b"><summary>A <strong>b</strong></summary><ul><li>one</li></ul><details aria-label="C"><summary>C</summary><p>d</p></details></details>',
    );
    expect(renderHtml('<details><summary>A</summary>\n\nb', true)).toContain('<summary>A</summary><p>b</p>');
  });

  it('keeps what follows <details> apart', () => {
    const blocks = new BlockReader().read('<details><summary>A</summary>\n\nb\n\n</details>\n\nAfter', true);
    expect(blocks.at(-1)).toEqual({ kind: 'html', raw: 'After' });
    expect(blocks).toHaveLength(2);
  });

  it('runs nothing that stands in <details>', () => {
    const html = renderHtml(
      '<details ontoggle="x()"><summary><img src=x onerror=y></summary>\n<script>z</script>\n</details>',
      false,
    );
    expect(html).not.toMatch(/<(script|img)|<[^>]*on\w+=/);
  });

  it('links a footnote and its mark', () => {
    const blocks = new BlockReader().read('A claim[^1].\n\n[^1]: See `a.ts`.\n', true);
    const html = blocks.map((block) => (block.kind === 'html' ? render(block.raw) : ''));
    expect(html[0]).toContain('<a class="note-mark" data-note="1" href="#note">1</a>');
    expect(html[1]).toMatch(/^<div class="footnote" data-note="1">.*See.*class="note-back"/s);
  });

  it('shows the boxes of a task list', () => {
    expect(renderHtml('- [x] a\n- [ ] b', false).match(/<input[^>]*>/g)).toEqual([
      '<input type="checkbox" disabled="" checked="">',
      '<input type="checkbox" disabled="">',
    ]);
  });

  it('breaks a line in a cell, and keeps other tags as text', () => {
    const html = render('| a |\n| - |\n| b<br>c <u>d</u> |');
    expect(html).toContain('<div class="table"><table>');
    expect(html).toMatch(/b<br>c &lt;u&gt;/);
  });
});

describe('highlighting', () => {
  it('produces complete HTML for every line, also in multi-line strings', () => {
    const lines = highlightLines('const a = `x\ny`;', 'ts');
    expect(lines).toHaveLength(2);
    for (const line of lines ?? []) {
      expect(line.match(/<span/g)?.length ?? 0).toBe(line.match(/<\/span>/g)?.length ?? 0);
    }
    expect(lines?.[1]).toContain('hljs-string');
  });

  it('ignores unknown languages', () => {
    expect(highlightLines('x', 'brainfuck')).toBeNull();
  });
});
