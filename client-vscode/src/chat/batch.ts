/** Updates on their way to the view, some at a time: it paints once a frame anyway. */

import type { UpdateParams } from '../protocol.gen.ts';
import type { View } from './chatView.ts';

/** How long the first of them waits for others, in ms. */
const WAIT = 50;

export class Batch {
  private updates: UpdateParams[] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly view: Pick<View, 'post'>) {}

  push(update: UpdateParams): void {
    this.updates.push(update);
    this.timer ??= setTimeout(() => this.flush(), WAIT);
  }

  /** Now: what is said next was said after them, and may lean on them. */
  flush(): void {
    this.dispose();
    const updates = this.updates;
    this.updates = [];
    if (updates.length > 0) this.view.post({ type: 'updates', updates, at: Date.now() });
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
