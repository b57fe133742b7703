/** Keeps the transcript scrolled to its end. Only input of the user stops or resumes that, never a layout change. */

import { signal } from '@preact/signals';

/** Distance from the end that still counts as the end, in pixels. */
const NEAR_END = 24;
/** A scroll event within this time after user input was caused by the user, in ms. */
const USER_SCROLL_MS = 250;

export class ScrollFollower {
  readonly following = signal(true);
  private lastInputAt = -USER_SCROLL_MS;
  private dragging = false;
  private readonly resizes: ResizeObserver;

  constructor(
    private readonly box: HTMLElement,
    content: HTMLElement,
  ) {
    this.resizes = new ResizeObserver(() => this.scrollToEnd());
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

  /** Scrolls to the end and follows it. */
  follow(): void {
    this.following.value = true;
    this.scrollToEnd();
  }

  leave(): void {
    this.following.value = false;
  }

  /** Scrolls to another position. Continues to follow if that position is the end. */
  goTo(move: () => void): void {
    this.leave();
    move();
    if (this.distanceFromEnd <= NEAR_END) this.following.value = true;
  }

  scrollToEnd(): void {
    if (this.following.value) this.box.scrollTop = this.box.scrollHeight;
  }

  private get distanceFromEnd(): number {
    return this.box.scrollHeight - this.box.clientHeight - this.box.scrollTop;
  }

  private readonly onWheel = (event: WheelEvent) => {
    this.lastInputAt = performance.now();
    if (event.deltaY < 0 && this.box.scrollHeight > this.box.clientHeight) this.leave();
  };

  private readonly onTouch = () => {
    this.lastInputAt = performance.now();
    if (this.distanceFromEnd > NEAR_END) this.leave();
  };

  private readonly onPointerDown = (event: PointerEvent) => {
    const onScrollbar = event.target === this.box && event.offsetX >= this.box.clientWidth;
    if (onScrollbar) this.dragging = true;
  };

  private readonly onPointerUp = () => {
    this.dragging = false;
  };

  private readonly onKey = (event: KeyboardEvent) => {
    this.lastInputAt = performance.now();
    if (event.target instanceof HTMLElement && event.target.closest('textarea, input')) return;
    if (['PageUp', 'Home', 'ArrowUp'].includes(event.key) && this.box.scrollHeight > this.box.clientHeight)
      this.leave();
    if (event.key === 'End') this.follow();
  };

  private readonly onScroll = () => {
    const byUser = this.dragging || performance.now() - this.lastInputAt < USER_SCROLL_MS;
    if (!byUser) return;
    if (this.distanceFromEnd <= NEAR_END) this.following.value = true;
    else if (this.dragging) this.leave();
  };

  private readonly onSelect = () => {
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !this.dragging) {
      if (selection && !selection.isCollapsed && this.box.contains(selection.anchorNode)) this.leave();
    }
  };
}
