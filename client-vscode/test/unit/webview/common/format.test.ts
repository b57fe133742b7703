import { describe, expect, it } from 'vitest';
import {
  count,
  duration,
  escaped,
  lineRange,
  relative,
  sentence,
  workingDirectory,
} from '../../../../webview/common/format.ts';

describe('formatting', () => {
  it('durations', () => {
    expect([200, 1000, 59_400, 61_000, 3_700_000].map(duration)).toEqual(['<1s', '1s', '59s', '1m 1s', '1h 1m']);
  });

  it('counts', () => {
    expect([999, 1000, 18_149, 130_000, 2_500_000].map(count)).toEqual(['999', '1k', '18.1k', '130k', '2.5M']);
  });

  it('lines of a selection', () => {
    const span = (start: [number, number], end: [number, number]) =>
      lineRange({
        start: { line: start[0], character: start[1] },
        end: { line: end[0], character: end[1] },
      });
    expect(span([6, 0], [8, 4])).toBe('7–9');
    expect(span([6, 0], [8, 0])).toBe('7–8');
    expect(span([6, 2], [7, 0])).toBe('7');
    expect(span([6, 2], [6, 9])).toBe('7');
    expect(span([6, 0], [6, 0])).toBe('7');
  });

  it('escapes characters that hide or reorder text (17)', () => {
    expect(escaped('rm \u202e-rf\u200b x\u0007')).toBe('rm \\u{202e}-rf\\u{200b} x\\u{7}');
    expect(escaped('plain: äöü 漢字 🐟')).toBe('plain: äöü 漢字 🐟');
  });

  it('paths inside the folder are relative', () => {
    expect(relative('file:///home/ada/my%20shop/src/a.ts', 'file:///home/ada/my%20shop')).toBe('src/a.ts');
    expect(relative('file:///etc/hosts', 'file:///home/ada/shop')).toBe('/etc/hosts');
  });

  it('reasons are sentences, and names are not capitalised', () => {
    expect(sentence('it changes files')).toBe('It changes files.');
    expect(sentence('rm is not known to only read')).toBe('rm is not known to only read.');
  });
});

describe('the working directory of a command', () => {
  const folder = 'file:///home/ada/my%20shop';
  it('is shown unless it is the workspace folder', () => {
    expect(workingDirectory('/home/ada/my shop', folder)).toBeUndefined();
    expect(workingDirectory('/home/ada/my shop/packages/api/', folder)).toBe('packages/api');
    expect(workingDirectory('/etc', folder)).toBe('/etc');
    expect(workingDirectory('/home/ada/my shopping', folder)).toBe('/home/ada/my shopping');
  });
});
