/** Markdown beyond GFM, for marked: formulas, footnotes and `<details>`. */

import type { TokenizerAndRendererExtension, Tokens } from 'marked';
import { escapeHtml } from './highlight.ts';

export interface MathToken extends Tokens.Generic {
  type: 'math';
  tex: string;
}

/** `$$…$$` or `\[…\]` that starts a line. `math.ts` renders it when the text is complete; until then it is source. */
const mathBlock: TokenizerAndRendererExtension = {
  name: 'math',
  level: 'block',
  start: (text) => text.search(/^(?:\$\$|\\\[)/m),
  tokenizer(text) {
    const found =
      /^ {0,3}\$\$([^$]+(?:\$[^$]+)*)\$\$[ \t]*(?:\n|$)/.exec(text) ??
      /^ {0,3}\\\[([\s\S]+?)\\\][ \t]*(?:\n|$)/.exec(text);
    return found ? { type: 'math', raw: found[0], tex: (found[1] ?? '').trim() } : undefined;
  },
  renderer: ({ tex }) => `<pre class="nested"><code>${escapeHtml(tex as string)}</code></pre>`,
};

/**
 * `$…$` or `\(…\)` in a line, under Pandoc's rule, so that prices and shell variables are not formulas: no blank inside
 * the dollars, and no letter or digit beside them.
 */
const mathInline: TokenizerAndRendererExtension = {
  name: 'mathInline',
  level: 'inline',
  start: (text) => text.search(/(?<![\w$\\])\$(?=[^\s$])|\\\(/),
  tokenizer(text) {
    const found = /^\$(?![\s$])((?:\\.|[^\\$\n])+?)(?<!\s)\$(?![\w$])/.exec(text) ?? /^\\\(([^\n]+?)\\\)/.exec(text);
    return found ? { type: 'mathInline', raw: found[0], tex: (found[1] ?? '').trim() } : undefined;
  },
  renderer: ({ tex }) => `<code class="math">${escapeHtml(tex as string)}</code>`,
};

/** `[^name]` in a line: a link to the note in the same text. */
const footnoteMark: TokenizerAndRendererExtension = {
  name: 'footnoteMark',
  level: 'inline',
  start: (text) => text.indexOf('[^'),
  tokenizer(text) {
    const found = /^\[\^([^\]\s]{1,40})\](?!:)/.exec(text);
    return found ? { type: 'footnoteMark', raw: found[0], note: found[1] } : undefined;
  },
  renderer: ({ note }) => {
    const name = escapeHtml(note as string);
    return `<sup><a class="note-mark" data-note="${name}" href="#note">${name}</a></sup>`;
  },
};

/** `[^name]: text`, shown where it stands: most models write their notes at the end. */
const footnote: TokenizerAndRendererExtension = {
  name: 'footnote',
  level: 'block',
  start: (text) => text.search(/^\[\^/m),
  tokenizer(text) {
    const found = /^\[\^([^\]\s]{1,40})\]:[ \t]*([^\n]*(?:\n(?!\[\^|[ \t]*\n|$)[^\n]*)*)(?:\n+|$)/.exec(text);
    if (!found) return undefined;
    return { type: 'footnote', raw: found[0], note: found[1], tokens: this.lexer.inlineTokens(found[2] ?? '') };
  },
  renderer({ note, tokens }) {
    const name = escapeHtml(note as string);
    const back = `<a class="note-back" data-note="${name}" href="#mark">↩</a>`;
    return `<div class="footnote" data-note="${name}"><sup>${name}</sup> ${this.parser.parseInline(tokens ?? [])} ${back}</div>`;
  },
};

/** `<details>` with Markdown inside. While its end is not streamed yet, it goes to the end of the text. */
const details: TokenizerAndRendererExtension = {
  name: 'details',
  level: 'block',
  start: (text) => text.search(/^<details/im),
  tokenizer(text) {
    const begin = /^<details(\s+open(?:="")?)?\s*>\s*(?:<summary>([\s\S]*?)<\/summary>)?/i.exec(text);
    if (!begin) return undefined;
    const { inner, raw } = upToClosingTag(text, begin[0].length);
    const summary = this.lexer.inlineTokens((begin[2] ?? '').replace(/<\/?h[1-6]>/gi, '').trim());
    const tokens = this.lexer.blockTokens(`${inner.trim()}\n`, []);
    return { type: 'details', raw, open: begin[1] !== undefined, summary, tokens };
  },
  renderer({ open, summary, tokens }) {
    const title = this.parser.parseInline(summary as Tokens.Generic[]) || '…';
    const name = title.replace(/<[^>]*>/g, '').replace(/"/g, '&quot;');
    return `<details aria-label="${name}"${open ? ' open' : ''}><summary>${title}</summary>${this.parser.parse(tokens ?? [])}</details>`;
  },
};

export const EXTENSIONS: TokenizerAndRendererExtension[] = [mathBlock, mathInline, footnoteMark, footnote, details];

/** The content up to the `</details>` that closes the first tag; inner ones have theirs. */
function upToClosingTag(text: string, from: number): { inner: string; raw: string } {
  const tags = /<(\/?)details[^>]*>/gi;
  tags.lastIndex = from;
  let depth = 1;
  for (let tag = tags.exec(text); tag; tag = tags.exec(text)) {
    depth += tag[1] === '/' ? -1 : 1;
    if (depth > 0) continue;
    const rest = /^[ \t]*\n*/.exec(text.slice(tags.lastIndex))?.[0].length ?? 0;
    return { inner: text.slice(from, tag.index), raw: text.slice(0, tags.lastIndex + rest) };
  }
  return { inner: text.slice(from), raw: text };
}
