import { useCallback, useEffect, useState } from 'react';
import type { FeedBuffer } from './feed-buffer.js';

/** Scrolled further down than this, in pixels, one reads, and rows must not move away. */
const READING_PX = 160;

/**
 * Keeps what is shown as it is while the user has scrolled down to read it.
 * @returns what to show, how many events have come since, and a function that goes back to the newest ones
 */
export function useHeld(buffer: FeedBuffer): {
  readonly shown: FeedBuffer;
  readonly missing: number;
  readonly show: () => void;
} {
  const [isReading, setReading] = useState(false);
  const [held, setHeld] = useState<FeedBuffer>();
  // While rendering, so that no frame shows the one without the other.
  if (isReading && held === undefined) setHeld(buffer);
  if (!isReading && held !== undefined) setHeld(undefined);

  useEffect(() => {
    const note = (): void => setReading(window.scrollY > READING_PX);
    window.addEventListener('scroll', note, { passive: true });
    return () => window.removeEventListener('scroll', note);
  }, []);
  const show = useCallback(() => window.scrollTo({ top: 0 }), []);
  // A feed that was begun anew has nothing to do with what was held.
  const shown = held === undefined || held.total > buffer.total ? buffer : held;
  return { shown, missing: buffer.total - shown.total, show };
}
