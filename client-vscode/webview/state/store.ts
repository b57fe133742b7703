/** Holds the state of the view and sends messages to the host. */

import { signal } from '@preact/signals';
import type { FromView } from '../messages.ts';
import { type LocalAction, reduce } from './reduce.ts';
import { INITIAL, type State } from './state.ts';

interface VsCodeApi {
  postMessage(message: FromView): void;
  getState(): unknown;
  setState(state: unknown): void;
}

declare global {
  function acquireVsCodeApi(): VsCodeApi;
}

export const vscode = acquireVsCodeApi();
export const state = signal<State>(INITIAL);

export function post(message: FromView): void {
  vscode.postMessage(message);
}

export function dispatch(action: Parameters<typeof reduce>[1] | LocalAction): void {
  state.value = reduce(state.value, action);
  if (state.value.gap && !reloading) {
    reloading = true;
    post({ type: 'reload' });
  } else if (!state.value.gap) {
    reloading = false;
  }
}

let reloading = false;

let idCount = 0;
const viewId = Math.random().toString(36).slice(2, 8);

/** An id that is unique in this view, and very unlikely to occur in another. */
export function newId(prefix: string): string {
  idCount += 1;
  return `${prefix}-${viewId}-${idCount}`;
}
