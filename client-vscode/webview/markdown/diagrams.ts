/**
 * Draws Mermaid diagrams as images. Loaded on demand.
 *
 * A diagram is shown as an image, because Mermaid writes its style into the diagram and the page's policy forbids that
 * in the page: an image is a document of its own, without scripts and without network.
 */

import mermaid from 'mermaid';

export interface Diagram {
  /** the image as a `data:` URL */
  url: string;
  width: number;
  height: number;
}

let count = 0;

/** Draws a diagram in the colours of the theme. Throws if Mermaid cannot read it. */
export async function drawDiagram(source: string): Promise<Diagram> {
  mermaid.initialize(configuration());
  await mermaid.parse(source);
  count += 1;
  const id = `diagram-${count}`;
  const box = document.createElement('div');
  box.className = 'diagram-draft';
  document.body.append(box);
  const style = new CSSStyleSheet();
  document.adoptedStyleSheets.push(style);
  try {
    // Mermaid measures its texts in the page, where the policy ignores the style that it wrote. Drawn twice, the second
    // time with that style as a sheet of the page, the measures are right.
    const draft = await mermaid.render(id, source, box);
    style.replaceSync(/<style>([\s\S]*?)<\/style>/.exec(draft.svg)?.[1] ?? '');
    return image((await mermaid.render(id, source, box)).svg);
  } finally {
    box.remove();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== style);
  }
}

function image(svg: string): Diagram {
  const drawing = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement;
  const [, , width = 0, height = 0] = (drawing.getAttribute('viewBox') ?? '').split(/[\s,]+/).map(Number);
  if (!(width > 0 && height > 0)) throw new Error('the diagram has no size');
  drawing.setAttribute('width', String(width));
  drawing.setAttribute('height', String(height));
  const text = new XMLSerializer().serializeToString(drawing);
  return { url: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`, width, height };
}

function configuration(): Parameters<typeof mermaid.initialize>[0] {
  const theme = getComputedStyle(document.body);
  const canvas = document.createElement('canvas').getContext('2d');
  const colour = (...names: string[]): string => {
    const value = names.map((name) => theme.getPropertyValue(`--vscode-${name}`).trim()).find((one) => one !== '');
    if (!canvas || value === undefined) return 'transparent';
    canvas.fillStyle = value; // gives any CSS colour back in a form that Mermaid can read
    return canvas.fillStyle;
  };
  const text = colour('foreground', 'editor-foreground');
  const line = colour('contrastBorder', 'descriptionForeground');
  const node = colour('editorWidget-background', 'editor-background');
  return {
    startOnLoad: false,
    securityLevel: 'strict',
    suppressErrorRendering: true,
    htmlLabels: false,
    fontFamily: theme.fontFamily,
    theme: 'base',
    themeVariables: {
      darkMode: /vscode-(dark|high-contrast(?!-light))/.test(document.body.className),
      fontSize: '13px',
      background: colour('editor-background'),
      primaryColor: node,
      secondaryColor: node,
      tertiaryColor: colour('editor-background'),
      primaryTextColor: text,
      primaryBorderColor: line,
      lineColor: line,
      textColor: text,
      edgeLabelBackground: colour('editor-background'),
      noteBkgColor: node,
      noteTextColor: text,
      noteBorderColor: line,
      dropShadow: 'none',
      useGradient: false,
    },
  };
}
