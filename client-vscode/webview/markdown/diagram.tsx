/** A Mermaid diagram or a formula of its own, with its source one click away. */

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { memo } from '../common/controls.tsx';
import { l10n } from '../common/l10n.ts';
import { themeChanges } from '../common/theme.ts';
import type { Diagram } from './diagrams.ts';

interface Props {
  source: string;
  /** the source cannot be drawn and is shown instead */
  onFail: (why: string) => void;
}

let drawing = 0;

/** While a diagram is drawn, the page's policy refuses the style that Mermaid writes into its draft. That is expected. */
export function isDrawing(): boolean {
  return drawing > 0;
}

export const DiagramImage = memo(({ source, onFail }: Props) => {
  const [drawn, setDrawn] = useState<Diagram | null>(null);
  const theme = themeChanges.value;
  useEffect(() => {
    let current = true;
    drawing += 1;
    import('./diagrams.ts')
      .then(({ drawDiagram }) => drawDiagram(source))
      .then(
        (diagram) => current && setDrawn(diagram),
        (error: unknown) => current && onFail(firstLine(error)),
      )
      .finally(() => setTimeout(() => (drawing -= 1)));
    return () => {
      current = false;
    };
  }, [source, theme]);
  if (!drawn) return <p class="meta drawing">{l10n.t('Drawing…')}</p>;
  const { url, width, height } = drawn;
  return (
    <div class="diagram" tabIndex={0} role="group" aria-label={l10n.t('Diagram')}>
      <img src={url} width={Math.ceil(width)} height={Math.ceil(height)} alt={source} />
    </div>
  );
});

export const FormulaBox = memo(({ source, onFail }: Props) => {
  const node = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = node.current;
    if (!box) return;
    box.textContent = source;
    import('./math.ts')
      .then(({ renderMath }) => renderMath(box, source, true))
      .catch((error: unknown) => onFail(firstLine(error)));
  }, [source]);
  return <div class="formula" ref={node} />;
});

/** Renders the formulas in a line of text. A click shows the source of a formula, another one the formula. */
export function renderInlineMath(block: HTMLElement): void {
  const nodes = [...block.querySelectorAll<HTMLElement>('code.math')];
  if (nodes.length === 0) return;
  void import('./math.ts').then(({ renderMath }) => {
    for (const node of nodes) {
      const tex = node.textContent ?? '';
      const shown = document.createElement('span');
      shown.className = 'math';
      shown.title = tex;
      renderMath(shown, tex, false).then(
        () => {
          node.replaceWith(shown);
          shown.addEventListener('click', () => shown.replaceWith(node));
          node.addEventListener('click', () => node.replaceWith(shown));
        },
        () => node.classList.replace('math', 'not-math'),
      );
    }
  });
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0] ?? '';
}
