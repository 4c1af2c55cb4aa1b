import type { Virtualizer } from '@tanstack/react-virtual';
import { useCallback, useEffect, useRef, type KeyboardEvent, type RefObject } from 'react';

interface Setup {
  readonly count: number;
  /** Index of the row that has, or had, the focus; -1 for none. */
  readonly active: number;
  readonly setActive: (index: number) => void;
  readonly virtualizer: Virtualizer<Window, Element>;
  readonly body: RefObject<HTMLElement | null>;
}

/** Lets keys go from row to row of a table whose rows may not exist yet, and select them. */
export function useRowKeys({ count, active, setActive, virtualizer, body }: Setup) {
  const wanted = useRef(-1);

  // A row that was far away exists only after the table has scrolled to it.
  useEffect(() => {
    if (wanted.current < 0) return;
    const row = body.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`);
    const target = row?.querySelector<HTMLElement>('[data-open], a, button, input');
    if (!target) return;
    wanted.current = -1;
    target.focus({ preventScroll: true });
  });

  return useCallback(
    (event: KeyboardEvent<HTMLElement>) => {
      const { target, key } = event;
      if (!(target instanceof HTMLElement) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (key === ' ' && target.matches('[data-open]')) {
        const box = target.closest('[data-index]')?.querySelector<HTMLInputElement>('input[type=checkbox]');
        if (!box) return;
        event.preventDefault();
        box.dispatchEvent(
          new MouseEvent('click', { bubbles: true, cancelable: true, shiftKey: event.shiftKey }),
        );
        return;
      }
      const next = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: count - 1 }[key];
      if (next === undefined || next < 0 || next >= count) return;
      event.preventDefault();
      wanted.current = next;
      setActive(next);
      virtualizer.scrollToIndex(next, { align: 'auto' });
    },
    [active, count, setActive, virtualizer],
  );
}
