/** Markdown as blocks that settle: only the last block of a growing text is ever parsed or rendered again. */

import DOMPurify from 'dompurify';
import { Marked, type Token, type Tokens } from 'marked';
import remend from 'remend';
import { l10n } from '../common/l10n.ts';
import { escapeHtml } from './highlight.ts';

export interface CodeBlock {
  kind: 'code';
  code: string;
  language: string;
  /** the fence is closed, or the text is over */
  closed: boolean;
}

export interface HtmlBlock {
  kind: 'html';
  /** Markdown source */
  raw: string;
}

export type Block = CodeBlock | HtmlBlock;

/** One growing text. Feed it the whole text each time; it looks only at what is not settled yet. */
export class BlockReader {
  private settled: Block[] = [];
  private offset = 0;
  private text = '';

  read(text: string, done: boolean): readonly Block[] {
    if (!text.startsWith(this.text.slice(0, this.offset))) this.reset();
    this.text = text;
    const tokens = lex(withoutHalfFence(text.slice(this.offset), done));
    const live: Block[] = [];
    let at = this.offset;
    const last = tokens.findLastIndex((token) => token.type !== 'space');
    for (const [index, token] of tokens.entries()) {
      const end = at + token.raw.length;
      if (token.type !== 'space') {
        const block = toBlock(token, index < last || done);
        if (index < last) this.settled.push(block);
        else live.push(block);
      }
      if (index < last) this.offset = end;
      at = end;
    }
    if (done && this.hasLateLinks(text)) return this.whole(text);
    return [...this.settled, ...live];
  }

  private reset(): void {
    this.settled = [];
    this.offset = 0;
  }

  /** Reference definitions reach back over blocks that are settled: then everything is read once more, at the end. */
  private hasLateLinks(text: string): boolean {
    return /^ {0,3}\[[^\]]+\]:\s/m.test(text) && /\]\[[^\]]*\]/.test(text);
  }

  private whole(text: string): readonly Block[] {
    const tokens = marked.lexer(text);
    const definitions = Object.entries(tokens.links)
      .map(([name, link]) => `[${name}]: ${link.href}`)
      .join('\n');
    this.settled = tokens
      .filter((token) => token.type !== 'space' && token.type !== 'def')
      .map((token) => {
        const block = toBlock(token, true);
        return block.kind === 'html' ? { ...block, raw: `${block.raw}\n\n${definitions}` } : block;
      });
    this.offset = text.length;
    return this.settled;
  }
}

/** A block as sanitised HTML. `live`: it still grows, so open emphasis and links are closed first. */
export function renderHtml(raw: string, live: boolean): string {
  const html = marked.parse(live ? remend(raw) : raw, { async: false });
  return purify(html);
}

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    image({ href, text }) {
      // An image would be fetched, and its address can carry what the model has read: it is a link.
      return `<a href="${escapeHtml(href)}">${escapeHtml(text || l10n.t('Image'))}</a>`;
    },
    link({ href, tokens }) {
      const words = this.parser.parseInline(tokens);
      return leadsSomewhere(href) ? `<a href="${escapeHtml(href)}">${words}</a>` : words;
    },
    html({ text }) {
      return escapeHtml(text);
    },
    codespan({ text }) {
      const path = /^(?:[\w.@~-]*\/)*[\w.@-]+\.\w{1,8}(?::\d+(?:[-:]\d+)?)?$/.test(text) && !/^[\d.]+$/.test(text);
      const code = `<code>${escapeHtml(text)}</code>`;
      return path && /[/:]|\.(?:\w{1,4})$/.test(text) ? `<a class="path" href="${escapeHtml(text)}">${code}</a>` : code;
    },
    code({ text, lang }) {
      return `<pre class="nested"><code data-language="${escapeHtml(lang ?? '')}">${escapeHtml(text)}</code></pre>`;
    },
  },
});

/** The web, and places in the workspace; every other scheme is inert. */
const SAFE_LINK = /^(?:https?:|mailto:|file:|vscode-remote:|(?![a-z][\w+.-]*:)|[\w.@~/-]+:\d+)/i;

function leadsSomewhere(href: string): boolean {
  return SAFE_LINK.test(href.trim());
}

const ALLOWED_TAGS = [
  'a',
  'b',
  'blockquote',
  'br',
  'code',
  'del',
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
  'li',
  'ol',
  'p',
  'pre',
  's',
  'span',
  'strong',
  'sub',
  'sup',
  'table',
  'tbody',
  'td',
  'th',
  'thead',
  'tr',
  'ul',
];

function purify(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS,
    ALLOWED_ATTR: ['href', 'class', 'type', 'checked', 'disabled', 'start', 'align', 'data-language'],
    ALLOW_DATA_ATTR: false,
    ALLOWED_URI_REGEXP: SAFE_LINK,
  });
}

function lex(text: string): Token[] {
  return marked.lexer(text);
}

function toBlock(token: Token, settled: boolean): Block {
  if (token.type === 'code') {
    const code = token as Tokens.Code;
    const closed = settled || /\n {0,3}(`{3,}|~{3,})\s*$/.test(code.raw);
    const language = (code.lang ?? '').trim().split(/\s+/)[0] ?? '';
    return { kind: 'code', code: code.text, language, closed };
  }
  return { kind: 'html', raw: token.raw };
}

/** A line at the end that may become a fence (or the fence's language) is not shown until it is whole. */
function withoutHalfFence(text: string, done: boolean): string {
  return done ? text : text.replace(/(^|\n) {0,3}(`{1,}|~{1,})[^\n`]*$/, '$1');
}
