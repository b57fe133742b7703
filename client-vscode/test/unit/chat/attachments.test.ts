import { beforeEach, describe, expect, it } from 'vitest';
import type { Uri } from 'vscode';
import { fileChip } from '../../../src/chat/attachments.ts';
import { disk } from '../support/vscode.ts';

const uri = (path: string) => ({ path, toString: () => `file://${path}` }) as unknown as Uri;

beforeEach(() => {
  for (const name of Object.keys(disk)) delete disk[name];
});

describe('attaching', () => {
  it('a file sends only its URI', async () => {
    disk['/project/src/a.ts'] = { size: 10, text: 'x' };
    expect(await fileChip(uri('/project/src/a.ts'))).toEqual({
      id: 'file:///project/src/a.ts',
      label: 'a.ts',
      detail: 'src/a.ts',
      icon: 'file',
      block: { type: 'resource', uri: 'file:///project/src/a.ts' },
    });
  });

  it('an image sends its data', async () => {
    disk['/project/shot.PNG'] = { size: 3, text: 'png' };
    const { icon, block } = await fileChip(uri('/project/shot.PNG'));
    expect([icon, block]).toEqual(['image', { type: 'image', mimeType: 'image/png', data: 'cG5n' }]);
  });

  it('an image that is too large is rejected before it is read', async () => {
    disk['/project/wall.jpg'] = { size: 6_000_000, text: '' };
    await expect(fileChip(uri('/project/wall.jpg'))).rejects.toThrow('wall.jpg is too large to attach.');
  });

  it('a folder is a folder even if its name looks like an image', async () => {
    disk['/project/icons.png'] = 'folder';
    expect((await fileChip(uri('/project/icons.png'))).icon).toBe('folder');
  });
});
