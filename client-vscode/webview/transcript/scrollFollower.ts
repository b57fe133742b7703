/** Following the end of the transcript. Only the user's own input leaves or takes it up again; layout never does. */

import { signal } from '@preact/signals';

/** How near to the end counts as the end, in pixels. */
const NEAR = 24;
/** A scroll event this soon after the user's input is the user's, in ms. */
const BY_USER = 250;

export class Follower {
  readonly following = signal(true);
  private touched = -BY_USER;
  private dragging = false;
  private readonly resizes: ResizeObserver;

  constructor(
    private readonly box: HTMLElement,
    content: HTMLElement,
  ) {
    this.resizes = new ResizeObserver(() => this.keepUp());
    this.resizes.observe(box);
    this.resizes.observe(content);
    box.addEventListener('wheel', this.onWheel, { passive: true });
    box.addEventListener('touchmove', this.onTouch, { passive: true });
    box.addEventListener('pointerdown', this.onPointerDown);
    addEventListener('pointerup', this.onPointerUp);
    box.addEventListener('keydown', this.onKey);
    box.addEventListener('scroll', this.onScroll, { passive: true });
    document.addEventListener('selectionchange', this.onSelect);
  }

  dispose(): void {
    this.resizes.disconnect();
    removeEventListener('pointerup', this.onPointerUp);
    document.removeEventListener('selectionchange', this.onSelect);
  }

  /** The pill, End, Send. */
  follow(): void {
    this.following.value = true;
    this.keepUp();
  }

  leave(): void {
    this.following.value = false;
  }

  /** To a place the user asked for; when that is the end, following goes on. */
  goTo(move: () => void): void {
    this.leave();
    move();
    if (this.fromEnd <= NEAR) this.following.value = true;
  }

  keepUp(): void {
    if (this.following.value) this.box.scrollTop = this.box.scrollHeight;
  }

  private get fromEnd(): number {
    return this.box.scrollHeight - this.box.clientHeight - this.box.scrollTop;
  }

  private readonly onWheel = (event: WheelEvent) => {
    this.touched = performance.now();
    if (event.deltaY < 0 && this.box.scrollHeight > this.box.clientHeight) this.leave();
  };

  private readonly onTouch = () => {
    this.touched = performance.now();
    if (this.fromEnd > NEAR) this.leave();
  };

  private readonly onPointerDown = (event: PointerEvent) => {
    const onScrollbar = event.target === this.box && event.offsetX >= this.box.clientWidth;
    if (onScrollbar) this.dragging = true;
  };

  private readonly onPointerUp = () => {
    this.dragging = false;
  };

  private readonly onKey = (event: KeyboardEvent) => {
    this.touched = performance.now();
    if (event.target instanceof HTMLElement && event.target.closest('textarea, input')) return;
    if (['PageUp', 'Home', 'ArrowUp'].includes(event.key) && this.box.scrollHeight > this.box.clientHeight)
      this.leave();
    if (event.key === 'End') this.follow();
  };

  private readonly onScroll = () => {
    const byUser = this.dragging || performance.now() - this.touched < BY_USER;
    if (!byUser) return;
    if (this.fromEnd <= NEAR) this.following.value = true;
    else if (this.dragging) this.leave();
  };

  private readonly onSelect = () => {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !this.dragging) {
      if (selection && !selection.isCollapsed && this.box.contains(selection.anchorNode)) this.leave();
    }
  };
}
