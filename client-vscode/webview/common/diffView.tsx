/** Shows a diff: the first lines at once, more on demand. */

import { Button, memo } from './controls.tsx';
import type { DiffLine } from './diffLines.ts';
import { escaped, moreLines } from './format.ts';
import { l10n } from './l10n.ts';

export const SHORT_DIFF = 20;
const LONG_DIFF = 400;

interface Props {
  lines: readonly DiffLine[];
  open: boolean;
  onOpen: (open: boolean) => void;
  onEditor?: () => void;
}

export const Diff = memo(({ lines, open, onOpen, onEditor }: Props) => {
  const shown = open ? lines.slice(0, LONG_DIFF) : lines.slice(0, SHORT_DIFF);
  const hidden = lines.length - shown.length;
  return (
    <div class="diff">
      <div class="diff-lines" tabIndex={0} role="group" aria-label={l10n.t('Changed lines')}>
        {shown.map((line, index) => (
          <Line key={index} line={line} />
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

const Line = memo(({ line }: { line: DiffLine }) => (
  <div class={`diff-line ${line.kind}`}>
    <span class="sign">{SIGNS[line.kind]}</span>
    <span class="diff-text">{escaped(line.text) || ' '}</span>
  </div>
));
