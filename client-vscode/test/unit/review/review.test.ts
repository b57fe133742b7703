import { describe, expect, test } from 'vitest';
import { nextPlace, type Place } from '../../../src/review/review.ts';

const places: readonly Place[] = [
  { uri: 'a', line: 3 },
  { uri: 'a', line: 9 },
  { uri: 'b', line: 1 },
];

describe('the next change', () => {
  test.each([
    ['a', 0, 1, places[0]],
    ['a', 3, 1, places[1]],
    ['a', 9, 1, places[2]],
    ['b', 1, 1, places[0]],
    ['b', 1, -1, places[1]],
    ['a', 3, -1, places[2]],
    ['other', 5, 1, places[0]],
  ] as const)('from line %s:%i going %i', (uri, line, direction, expected) => {
    expect(nextPlace(places, uri, line, direction)).toEqual(expected);
  });

  test('is none if nothing is pending', () => {
    expect(nextPlace([], 'a', 0, 1)).toBeUndefined();
  });
});
