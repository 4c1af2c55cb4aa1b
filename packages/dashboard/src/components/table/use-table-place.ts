import { useEffect, useLayoutEffect, useState, type RefObject } from 'react';

/** Below this width, in pixels, rows are cards. */
const NARROW_PX = 740;

/** Where a part of the page is: whether it is too narrow for columns, and how far below the top of the page it begins. */
export function useTablePlace(body: RefObject<HTMLElement | null>): {
  readonly isNarrow: boolean;
  readonly top: number;
} {
  const [place, setPlace] = useState(() => ({ isNarrow: window.innerWidth < NARROW_PX, top: 0 }));

  const measure = (): void => {
    const box = body.current?.getBoundingClientRect();
    if (box === undefined) return;
    const isNarrow = box.width < NARROW_PX;
    const top = Math.round(box.top + window.scrollY);
    // oxlint-disable-next-line react/set-state-in-effect -- the place is known only after the layout, before the paint
    setPlace((known) => (known.isNarrow === isNarrow && known.top === top ? known : { isNarrow, top }));
  };
  // What is above may have changed with any change of the page.
  useLayoutEffect(measure);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  });
  return place;
}
