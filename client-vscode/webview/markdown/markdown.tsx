/** Renders streamed Markdown without flicker: finished blocks keep their DOM nodes, only the last block changes. */

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { IconButton, memo, Toolbar } from '../common/controls.tsx';
import { bytes } from '../common/format.ts';
import { l10n } from '../common/l10n.ts';
import { post } from '../state/store.ts';
import { BlockReader, type CodeBlock, type MathBlock, renderHtml } from './blocks.ts';
import { DiagramImage, FormulaBox, renderInlineMath } from './diagram.tsx';
import { escapeHtml, highlightLines } from './highlight.ts';

/** Longer texts are shown as plain text with a button to open them in an editor. */
const MAX_TEXT = 100_000;
const SHELLS = new Set(['sh', 'bash', 'shell', 'zsh', 'fish', 'console', 'powershell', 'cmd']);

export const Markdown = memo(({ text, live }: { text: string; live: boolean }) => {
  const reader = useRef<BlockReader>(null);
  if (!reader.current) reader.current = new BlockReader();
  if (text.length > MAX_TEXT) return <HugeText text={text} />;
  const blocks = reader.current.read(text, !live);
  return (
    // The links inside are focusable; this only handles their clicks.
    // biome-ignore lint/a11y: see above
    <div class="markdown" onClick={onLink}>
      {blocks.map((block, index) => {
        const tail = live && index === blocks.length - 1;
        if (block.kind === 'code') return <Code key={index} block={block} live={tail} />;
        if (block.kind === 'math') return <Formula key={index} block={block} />;
        return <Html key={index} raw={block.raw} live={tail} />;
      })}
    </div>
  );
});

const Html = memo(({ raw, live }: { raw: string; live: boolean }) => {
  const node = useRef<HTMLDivElement>(null);
  const written = useRef('');
  const write = () => {
    const html = renderHtml(raw, live);
    if (!node.current || html === written.current) return;
    written.current = html;
    node.current.innerHTML = html;
    if (!live) renderInlineMath(node.current);
  };
  useLayoutEffect(() => {
    if (!node.current || !isSelected(node.current)) {
      write();
      return;
    }
    // Keep the selection in this block: write the new text when the selection is gone.
    const later = () => {
      if (node.current && isSelected(node.current)) return;
      document.removeEventListener('selectionchange', later);
      write();
    };
    document.addEventListener('selectionchange', later);
    return () => document.removeEventListener('selectionchange', later);
  }, [raw, live]);
  // Each block has its own text direction.
  return <div class="block" dir="auto" ref={node} />;
});

const Code = memo(({ block, live }: { block: CodeBlock; live: boolean }) => {
  const node = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    if (node.current) paint(node.current, block, live && !block.closed);
  }, [block.code, block.language, block.closed, live]);
  const { code, language } = block;
  // A diagram is drawn when its source is complete.
  const isDiagram = language === 'mermaid' && block.closed && !live;
  const [showSource, setShowSource] = useState(false);
  const [fault, setFault] = useState('');
  const drawn = isDiagram && !showSource && fault === '';
  return (
    <div class="code">
      <div class="code-bar">
        <span class="code-language">{language || l10n.t('text')}</span>
        <Toolbar className="code-actions" label={l10n.t('Code actions')}>
          {isDiagram && fault === '' && <SourceButton shown={showSource} onChange={setShowSource} />}
          {SHELLS.has(language) && (
            <IconButton
              icon="terminal"
              label={l10n.t('Send to terminal')}
              onPress={() => post({ type: 'terminal', text: code })}
            />
          )}
          <IconButton
            icon="diff"
            label={l10n.t('Apply to the file…')}
            onPress={() => post({ type: 'applyCode', text: code, info: block.info })}
          />
          <IconButton
            icon="insert"
            label={l10n.t('Insert at cursor')}
            onPress={() => post({ type: 'insert', text: code })}
          />
          <IconButton icon="copy" label={l10n.t('Copy code')} onPress={() => post({ type: 'copy', text: code })} />
        </Toolbar>
      </div>
      {drawn && <DiagramImage source={code} onFail={setFault} />}
      {fault !== '' && <p class="meta fault">{l10n.t('This diagram cannot be drawn: {0}', fault)}</p>}
      <pre
        hidden={drawn}
        tabIndex={0}
        role="group"
        aria-label={language ? l10n.t('Code, {0}', language) : l10n.t('Code')}
      >
        <code ref={node} class={language === 'diff' || language === 'patch' ? 'diff-code' : undefined} />
      </pre>
    </div>
  );
});

const Formula = memo(({ block }: { block: MathBlock }) => {
  const [showSource, setShowSource] = useState(false);
  const [fault, setFault] = useState('');
  if (fault !== '')
    return <Code block={{ kind: 'code', code: block.tex, language: 'tex', info: 'tex', closed: true }} live={false} />;
  return (
    <div class="code formula-frame">
      <div class="code-bar">
        <span class="code-language" />
        <Toolbar className="code-actions" label={l10n.t('Code actions')}>
          <SourceButton shown={showSource} onChange={setShowSource} />
          <IconButton icon="copy" label={l10n.t('Copy code')} onPress={() => post({ type: 'copy', text: block.tex })} />
        </Toolbar>
      </div>
      {showSource ? (
        <pre>
          <code>{block.tex}</code>
        </pre>
      ) : (
        <FormulaBox source={block.tex} onFail={setFault} />
      )}
    </div>
  );
});

function SourceButton({ shown, onChange }: { shown: boolean; onChange: (shown: boolean) => void }) {
  return (
    <IconButton
      icon={shown ? 'eye' : 'code'}
      label={shown ? l10n.t('Hide source') : l10n.t('Show source')}
      onPress={() => onChange(!shown)}
    />
  );
}

/** Writes only the lines that changed, so that highlighted lines do not flicker. */
function paint(node: HTMLElement, block: CodeBlock, growing: boolean): void {
  const lines = block.code.split('\n');
  const whole = growing ? lines.slice(0, -1) : lines;
  const coloured = highlightLines(whole.join('\n'), block.language) ?? whole.map(escapeHtml);
  const html = growing ? [...(whole.length > 0 ? coloured : []), escapeHtml(lines.at(-1) ?? '')] : coloured;
  html.forEach((line, index) => {
    const text = index < html.length - 1 ? `${line}\n` : line;
    const child = node.children[index] as (HTMLElement & { written?: string }) | undefined;
    if (child?.written === text) return;
    const span: HTMLElement & { written?: string } = child ?? node.appendChild(document.createElement('span'));
    span.written = text;
    span.className = diffKind(block.language, lines[index] ?? '');
    span.innerHTML = text;
  });
  while (node.children.length > html.length) node.lastChild?.remove();
}

/** The class of a line in a diff; empty in other code. */
function diffKind(language: string, line: string): string {
  if (language !== 'diff' && language !== 'patch') return '';
  if (/^(?:\+\+\+|---) /.test(line)) return 'head';
  return line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : line.startsWith('@@') ? 'head' : '';
}

function HugeText({ text }: { text: string }) {
  return (
    <div class="huge">
      <pre>{text.slice(0, 20_000)}</pre>
      <button
        type="button"
        class="button secondary"
        onClick={() => post({ type: 'openText', text, language: 'markdown' })}
      >
        {l10n.t('Open in editor ({0})', bytes(text.length))}
      </button>
    </div>
  );
}

function onLink(event: MouseEvent): void {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (!link) return;
  event.preventDefault();
  const { note } = link.dataset;
  if (note !== undefined) {
    showNote(event.currentTarget as HTMLElement, link, note);
    return;
  }
  const href = link.getAttribute('href');
  if (href) post({ type: 'openLink', href });
}

/** Goes from the mark of a footnote to the note, and back. */
function showNote(text: HTMLElement, from: Element, note: string): void {
  const wanted = from.classList.contains('note-back') ? 'a.note-mark' : 'div.footnote';
  const target = text.querySelector<HTMLElement>(`${wanted}[data-note="${CSS.escape(note)}"]`);
  if (!target) return;
  target.tabIndex = target.tagName === 'A' ? 0 : -1;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: 'nearest' });
}

let selecting = false;
document.addEventListener('selectionchange', () => {
  selecting = document.getSelection()?.isCollapsed === false;
});

/** Checks the selection only if there is one, because the check forces a layout. */
function isSelected(node: Node): boolean {
  return selecting && (document.getSelection()?.containsNode(node, true) ?? false);
}
