import { expect, it } from 'vitest';
import { consequences } from '../../../../webview/approvals/consequences.ts';
import { lookAlikes } from '../../../../webview/common/format.ts';

it.each([
  [['rm -r build: rm may change files or run other programs'], ['Deletes build and everything in it.']],
  [["rm 'my notes.txt' 'it'\\''s': it writes to 'a: b'"], ["Deletes my notes.txt, it's."]],
  [['git push: git push sends data; writes to log'], ['Sends commits to a remote repository.']],
  [['rm -rf build'], ['Deletes build and everything in it.']],
  [['/bin/rm a.txt b.txt'], ['Deletes a.txt, b.txt.']],
  [['find . -name *.pyc -delete'], ['Deletes the files that it finds.']],
  [['git push --force-with-lease origin main'], ['Replaces the history of a remote branch.']],
  [
    ['git push', 'npm publish'],
    ['Sends commits to a remote repository.', 'Publishes a package.'],
  ],
  [['git reset --hard', 'git reset HEAD'], ['Discards all uncommitted changes.']],
  [['runs rm -r dist'], ['Deletes dist and everything in it.']],
  [['ls -r', 'npm test', 'git status', 'git checkout main'], []],
])('%j: %j', (commands, expected) => {
  expect(consequences(commands)).toEqual(expected);
});

it('marks letters that look like others, and no words of another language', () => {
  expect(lookAlikes('curl https://p\u0430ypal.com')).toEqual(['\u0430 (U+0430)']);
  expect(lookAlikes('echo привет мир; echo café naïve')).toEqual([]);
});
