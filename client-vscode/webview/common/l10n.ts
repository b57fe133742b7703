/** Translates strings with VS Code's l10n bundle, which the host provides. The English text is the key and the fallback. */

let bundle: Record<string, string> = {};

export const l10n = {
  load(translations: Record<string, string>): void {
    bundle = translations;
  },
  t(message: string, ...values: readonly (string | number)[]): string {
    const translated = bundle[message] ?? message;
    return translated.replace(/\{(\d+)\}/g, (whole, index) => String(values[Number(index)] ?? whole));
  },
};
