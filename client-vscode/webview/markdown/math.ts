/** Renders formulas with KaTeX. Loaded on demand; the page's policy allows its elements, styles and fonts. */

import katex from 'katex';

/** Renders the formula into the node. Throws if KaTeX cannot read it. */
export async function renderMath(node: HTMLElement, tex: string, displayMode: boolean): Promise<void> {
  await styled();
  katex.render(tex, node, { displayMode, throwOnError: true, strict: 'ignore', trust: false, maxSize: 40 });
}

let loading: Promise<void> | undefined;

/** Loads KaTeX's style once. */
function styled(): Promise<void> {
  loading ??= new Promise((done) => {
    const link = document.createElement('link');
    link.rel = 'stylesheet';
    link.href = new URL('math.css', document.querySelector<HTMLScriptElement>('script[src$="/webview.js"]')?.src).href;
    link.onload = () => done();
    link.onerror = () => done();
    document.head.append(link);
  });
  return loading;
}
