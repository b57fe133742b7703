/** Counts the changes of the colour theme, for what is drawn with its colours. */

import { signal } from '@preact/signals';

export const themeChanges = signal(0);

/** VS Code writes the theme into the class and the style of the page. */
export function watchTheme(): void {
  const observer = new MutationObserver(() => {
    themeChanges.value += 1;
  });
  observer.observe(document.body, { attributes: true, attributeFilter: ['class'] });
}
