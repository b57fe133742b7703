/** Shows a diff with line numbers and the colours of its language: the first lines at once, more on demand. */

import { useMemo } from 'preact/hooks';
import { escapeHtml, highlightLines, languageOf } from '../markdown/highlight.ts';
import { Button, memo } from './controls.tsx';
import type { DiffLine } from './diffLines.ts';
import { escaped, moreLines } from './format.ts';
import { l10n } from './l10n.ts';

export const SHORT_DIFF = 20;
const LONG_DIFF = 400;

interface Props {
  lines: readonly DiffLine[];
  /** the file, which says how the lines are highlighted */
  uri: string | undefined;
  open: boolean;
  onOpen: (open: boolean) => void;
  onEditor?: () => void;
}

export const Diff = memo(({ lines, uri, open, onOpen, onEditor }: Props) => {
  const shown = open ? lines.slice(0, LONG_DIFF) : lines.slice(0, SHORT_DIFF);
  const hidden = lines.length - shown.length;
  const html = useMemo(() => colouredLines(shown, languageOf(uri ?? '')), [lines, uri, open]);
  const digits = String(Math.max(0, ...shown.map((line) => line.number ?? 0))).length;
  return (
    <div class="diff">
      <div class="diff-lines" tabIndex={0} role="group" aria-label={l10n.t('Changed lines')}>
        {shown.map((line, index) => (
          <Line key={index} kind={line.kind} number={line.number} html={html[index] ?? ''} digits={digits} />
        ))}
      </div>
      {(hidden > 0 || open || onEditor) && (
        <div class="diff-foot">
          {hidden > 0 && !open && (
            <Button kind="link" onPress={() => onOpen(true)}>
              {moreLines(hidden)}
            </Button>
          )}
          {hidden > 0 && open && <span class="meta">{moreLines(hidden)}</span>}
          {open && lines.length > SHORT_DIFF && (
            <Button kind="link" onPress={() => onOpen(false)}>
              {l10n.t('Show less')}
            </Button>
          )}
          {onEditor && (
            <Button kind="link" onPress={onEditor}>
              {l10n.t('Open diff')}
            </Button>
          )}
        </div>
      )}
    </div>
  );
});

const SIGNS = { added: '+', removed: '−', same: ' ', gap: '⋯' };

interface LineProps {
  kind: DiffLine['kind'];
  number: number | undefined;
  html: string;
  digits: number;
}

const Line = memo(({ kind, number, html, digits }: LineProps) => (
  <div class={`diff-line ${kind}`}>
    <span class="line-number" aria-hidden="true">
      {String(number ?? '').padStart(digits)}
    </span>
    <span class="sign">{SIGNS[kind]}</span>
    {/* The highlighter escapes the text. */}
    <span class="diff-text" dangerouslySetInnerHTML={{ __html: html || ' ' }} />
  </div>
));

/** The HTML of each line. Old and new lines are highlighted separately, because each side is a text of its own. */
function colouredLines(lines: readonly DiffLine[], language: string): readonly string[] {
  const html = lines.map((line) => escapeHtml(escaped(line.text)));
  for (const side of ['removed', 'added'] as const) {
    const at = lines.flatMap(({ kind }, index) => (kind === side || kind === 'same' ? [index] : []));
    const coloured = highlightLines(at.map((index) => escaped(lines[index]?.text ?? '')).join('\n'), language);
    for (const [n, index] of at.entries()) html[index] = coloured?.[n] ?? html[index] ?? '';
  }
  return html;
}
