/** Words in the user's language. The host hands over VS Code's own bundle; English is the key and the fallback. */

let bundle: Record<string, string> = {};

export const l10n = {
  load(words: Record<string, string>): void {
    bundle = words;
  },
  t(message: string, ...values: readonly (string | number)[]): string {
    const translated = bundle[message] ?? message;
    return translated.replace(/\{(\d+)\}/g, (whole, index) => String(values[Number(index)] ?? whole));
  },
};
