/** Splits streamed Markdown into blocks, so that only the last block is parsed and rendered again. */

import DOMPurify from 'dompurify';
import { Marked, type Token, type Tokens } from 'marked';
import remend from 'remend';
import { l10n } from '../common/l10n.ts';
import { EXTENSIONS, type MathToken } from './extensions.ts';
import { escapeHtml, highlightLines } from './highlight.ts';

export interface CodeBlock {
  kind: 'code';
  code: string;
  language: string;
  /** the words behind the fence: the language, and sometimes a path */
  info: string;
  /** the closing fence was read, or the text is complete */
  closed: boolean;
}

/** A formula on lines of its own. */
export interface MathBlock {
  kind: 'math';
  tex: string;
}

export interface HtmlBlock {
  kind: 'html';
  /** Markdown source */
  raw: string;
}

export type Block = CodeBlock | MathBlock | HtmlBlock;

/** Reads one streamed text. Each call gets the whole text and parses only the part after the finished blocks. */
export class BlockReader {
  private finished: Block[] = [];
  private offset = 0;
  private text = '';

  read(text: string, done: boolean): readonly Block[] {
    if (!text.startsWith(this.text.slice(0, this.offset))) this.reset();
    this.text = text;
    const tokens = lex(withoutPartialFence(text.slice(this.offset), done));
    const live: Block[] = [];
    let at = this.offset;
    const last = tokens.findLastIndex((token) => token.type !== 'space');
    for (const [index, token] of tokens.entries()) {
      const end = at + token.raw.length;
      if (token.type !== 'space') {
        const block = toBlock(token, index < last || done);
        if (index < last) this.finished.push(block);
        else live.push(block);
      }
      if (index < last) this.offset = end;
      at = end;
    }
    if (done && this.hasLinkDefinitions(text)) return this.parseAll(text);
    return [...this.finished, ...live];
  }

  private reset(): void {
    this.finished = [];
    this.offset = 0;
  }

  /** Link definitions can affect finished blocks, so a text with definitions is parsed again at the end. */
  private hasLinkDefinitions(text: string): boolean {
    return /^ {0,3}\[[^\]^][^\]]*\]:\s/m.test(text) && /\]\[[^\]]*\]/.test(text);
  }

  private parseAll(text: string): readonly Block[] {
    const tokens = marked.lexer(text);
    const definitions = Object.entries(tokens.links)
      .map(([name, link]) => `[${name}]: ${link.href}`)
      .join('\n');
    this.finished = tokens
      .filter((token) => token.type !== 'space' && token.type !== 'def')
      .map((token) => {
        const block = toBlock(token, true);
        return block.kind === 'html' ? { ...block, raw: `${block.raw}\n\n${definitions}` } : block;
      });
    this.offset = text.length;
    return this.finished;
  }
}

/** Renders a block as sanitised HTML. While the block is streamed (`live`), open emphasis and links are closed first. */
export function renderHtml(raw: string, live: boolean): string {
  const html = marked.parse(live ? remend(raw) : raw, { async: false });
  return sanitise(html);
}

const marked = new Marked({
  gfm: true,
  breaks: false,
  extensions: EXTENSIONS,
  renderer: {
    image({ href, text }) {
      // Loading an image could send data that the model has read to a server, so images become links.
      return `<a href="${escapeHtml(href)}">${escapeHtml(text || l10n.t('Image'))}</a>`;
    },
    link({ href, tokens }) {
      const content = this.parser.parseInline(tokens);
      return isSafeLink(href) ? `<a href="${escapeHtml(href)}">${content}</a>` : content;
    },
    html({ text }) {
      return PLAIN_TAG.test(text) ? text : escapeHtml(text);
    },
    table(token) {
      const row = (cells: Tokens.TableCell[]) => `<tr>${cells.map((cell) => this.tablecell(cell)).join('')}</tr>`;
      const body = token.rows.map(row).join('');
      // The frame scrolls sideways; a table that scrolls itself loses its role for screen readers.
      return `<div class="table"><table><thead>${row(token.header)}</thead><tbody>${body}</tbody></table></div>`;
    },
    checkbox({ checked }) {
      return `<input type="checkbox" disabled${checked ? ' checked' : ''}> `;
    },
    codespan({ text }) {
      const path = /^(?:[\w.@~-]*\/)*[\w.@-]+\.\w{1,8}(?::\d+(?:[-:]\d+)?)?$/.test(text) && !/^[\d.]+$/.test(text);
      const code = `<code>${escapeHtml(text)}</code>`;
      return path && /[/:]|\.(?:\w{1,4})$/.test(text) ? `<a class="path" href="${escapeHtml(text)}">${code}</a>` : code;
    },
    code({ text, lang }) {
      const coloured = highlightLines(text, lang ?? '')?.join('\n') ?? escapeHtml(text);
      return `<pre class="nested"><code>${coloured}</code></pre>`;
    },
  },
});

/** Inline tags without attributes that models use because Markdown has no sign for them. Other HTML is shown as text. */
const PLAIN_TAG = /^<\/?(?:b|br|del|em|i|kbd|s|strong|sub|sup)\s*\/?>$/i;

/** Links to the web, to mail addresses and to files. Other schemes are not rendered as links. */
const SAFE_LINK = /^(?:https?:|mailto:|file:|vscode-remote:|(?![a-z][\w+.-]*:)|[\w.@~/-]+:\d+)/i;

function isSafeLink(href: string): boolean {
  return SAFE_LINK.test(href.trim());
}

const ALLOWED_TAGS = [
  'a',
  'b',
  'blockquote',
  'br',
  'code',
  'del',
  'details',
  'div',
  'em',
  'h1',
  'h2',
  'h3',
  'h4',
  'h5',
  'h6',
  'hr',
  'i',
  'input',
  'kbd',
  'li',
  'ol',
  'p',
  'pre',
  's',
  'span',
  'strong',
  'sub',
  'summary',
  'sup',
  'table',
  'tbody',
  'td',
  'th',
  'thead',
  'tr',
  'ul',
];

function sanitise(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ['aria-label', 'href', 'class', 'type', 'checked', 'disabled', 'open', 'start', 'align', 'data-note'],
    ALLOW_DATA_ATTR: false,
    ALLOWED_URI_REGEXP: SAFE_LINK,
  });
}

function lex(text: string): Token[] {
  return marked.lexer(text);
}

function toBlock(token: Token, complete: boolean): Block {
  if (token.type === 'code') {
    const code = token as Tokens.Code;
    const closed = complete || /\n {0,3}(`{3,}|~{3,})\s*$/.test(code.raw);
    const info = (code.lang ?? '').trim();
    const language = info.split(/\s+/)[0] ?? '';
    return { kind: 'code', code: code.text, language, info, closed };
  }
  if (token.type === 'math' && complete) return { kind: 'math', tex: (token as MathToken).tex };
  return { kind: 'html', raw: token.raw };
}

/** Hides a last line that may become a code fence until the line is complete. */
function withoutPartialFence(text: string, done: boolean): string {
  return done ? text : text.replace(/(^|\n) {0,3}(`{1,}|~{1,})[^\n`]*$/, '$1');
}
