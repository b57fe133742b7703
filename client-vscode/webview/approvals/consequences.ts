/** Says what a command destroys or sends out, so that its card can warn. This informs only; the server decides. */

import { l10n } from '../common/l10n.ts';

/** One sentence for each command that deletes, discards or publishes; `parsed` is that of the server's preview. */
export function consequences(parsed: readonly string[]): readonly string[] {
  return [...new Set(parsed.map((line) => consequence(wordsOf(line))).filter((text) => text !== undefined))];
}

/** The words of the command in a line such as `rm -r 'old build': rm may change files`, without the quotes. */
function wordsOf(line: string): readonly string[] {
  const words = line.replace(/^runs /, '').match(/(?:'[^']*'|\\.|[^\s'\\])+/g) ?? [];
  const last = words.findIndex((word) => word.endsWith(':'));
  const command = last < 0 ? words : [...words.slice(0, last), (words[last] ?? '').slice(0, -1)];
  return command.map((word) => word.replace(/'([^']*)'|\\(.)/g, '$1$2'));
}

function consequence([program = '', ...args]: readonly string[]): string | undefined {
  const name = program.split('/').at(-1) ?? '';
  const targets = args.filter((arg) => !arg.startsWith('-')).join(', ');
  const has = (...options: readonly string[]) => options.some((option) => args.includes(option));
  switch (name) {
    case 'rm':
    case 'rmdir':
    case 'unlink':
    case 'shred':
    case 'trash':
      return args.some((arg) => /^-[a-z]*r/i.test(arg) || arg === '--recursive')
        ? l10n.t('Deletes {0} and everything in it.', targets)
        : l10n.t('Deletes {0}.', targets);
    case 'find':
      return has('-delete') ? l10n.t('Deletes the files that it finds.') : undefined;
    case 'dropdb':
      return l10n.t('Deletes the database {0}.', targets);
    case 'git':
      return gitConsequence(args, has);
    case 'npm':
    case 'pnpm':
    case 'yarn':
    case 'cargo':
    case 'twine':
    case 'gem':
      return has('publish', 'upload', 'push') ? l10n.t('Publishes a package.') : undefined;
    default:
      return undefined;
  }
}

function gitConsequence(args: readonly string[], has: (...options: readonly string[]) => boolean): string | undefined {
  const [command = ''] = args.filter((arg) => !arg.startsWith('-'));
  switch (command) {
    case 'push':
      return args.some((arg) => arg === '-f' || arg.startsWith('--force'))
        ? l10n.t('Replaces the history of a remote branch.')
        : l10n.t('Sends commits to a remote repository.');
    case 'reset':
      return has('--hard') ? l10n.t('Discards all uncommitted changes.') : undefined;
    case 'clean':
      return l10n.t('Deletes untracked files.');
    case 'restore':
      return l10n.t('Discards uncommitted changes in files.');
    case 'checkout':
      return has('--', '-f', '--force', '.') ? l10n.t('Discards uncommitted changes in files.') : undefined;
    case 'branch':
      return has('-d', '-D', '--delete') ? l10n.t('Deletes a branch.') : undefined;
    case 'stash':
      return has('drop', 'clear') ? l10n.t('Deletes stashed changes.') : undefined;
    default:
      return undefined;
  }
}
