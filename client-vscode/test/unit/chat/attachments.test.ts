import { beforeEach, describe, expect, it } from 'vitest';
import type { Uri } from 'vscode';
import { fileChip } from '../../../src/chat/attachments.ts';
import { disk } from '../support/vscode.ts';

const uri = (path: string) => ({ path, toString: () => `file://${path}` }) as unknown as Uri;

beforeEach(() => {
  for (const name of Object.keys(disk)) delete disk[name];
});

describe('a file to attach', () => {
  it('is read by the server when its turn comes', async () => {
    disk['/project/src/a.ts'] = { size: 10, text: 'x' };
    expect(await fileChip(uri('/project/src/a.ts'))).toEqual({
      id: 'file:///project/src/a.ts',
      label: 'a.ts',
      detail: 'src/a.ts',
      icon: 'file',
      block: { type: 'resource', uri: 'file:///project/src/a.ts' },
    });
  });

  it('that is an image is one for the model, however it came', async () => {
    disk['/project/shot.PNG'] = { size: 3, text: 'png' };
    const { icon, block } = await fileChip(uri('/project/shot.PNG'));
    expect([icon, block]).toEqual(['image', { type: 'image', mimeType: 'image/png', data: 'cG5n' }]);
  });

  it('that is too large an image is refused before it is read', async () => {
    disk['/project/wall.jpg'] = { size: 6_000_000, text: '' };
    await expect(fileChip(uri('/project/wall.jpg'))).rejects.toThrow('wall.jpg is too large to attach.');
  });

  it('that is a folder stays one, whatever it is called', async () => {
    disk['/project/icons.png'] = 'folder';
    expect((await fileChip(uri('/project/icons.png'))).icon).toBe('folder');
  });
});
