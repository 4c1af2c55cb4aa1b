import type { LogEntry, LogPage } from './log-page.js';

/** Entries and characters that a tab holds of a log at most, however long the log is. */
const MOST_ENTRIES = 20_000;
const MOST_CHARACTERS = 8_000_000;
/** Trimmed at once, so that not every line that comes costs a copy. */
const TRIMMED_ENTRIES = 2000;

/** The stretch of a log that a tab holds. */
export interface LogWindow {
  readonly entries: readonly LogEntry[];
  /** Cursor in front of the first entry. */
  readonly before: string;
  readonly hasOlder: boolean;
  /** Cursor behind the last entry. */
  readonly after: string;
  /** Whether it holds the newest line that was known when it was read. */
  readonly isAtEnd: boolean;
  /** Nothing will follow. */
  readonly isComplete: boolean;
  /** As in LogPage. */
  readonly leftOut: number;
}

/** The window that shows one page. */
export function windowOf(page: LogPage): LogWindow {
  return {
    entries: page.entries,
    before: page.previous,
    hasOlder: page.hasPrevious,
    after: page.next,
    isAtEnd: !page.hasMore,
    isComplete: page.isComplete,
    leftOut: page.leftOut,
  };
}

/** Adds what is in front of the window; what is too much goes at the other end. */
export function prepend(window: LogWindow, page: LogPage): LogWindow {
  const all = [...page.entries, ...window.entries];
  const older = { ...window, before: page.previous, hasOlder: page.hasPrevious };
  const kept = countKept(all.values());
  const last = all[kept - 1];
  if (kept === all.length || last === undefined) return { ...older, entries: all };
  return { ...older, entries: all.slice(0, kept), after: last.cursor, isAtEnd: false, isComplete: false };
}

/** Adds what is behind the window; what is too much goes at the other end. */
export function append(
  window: LogWindow,
  entries: readonly LogEntry[],
  place: Pick<LogWindow, 'after' | 'isAtEnd' | 'isComplete' | 'leftOut'>,
): LogWindow {
  const all = entries.length === 0 ? window.entries : [...window.entries, ...entries];
  const newer = { ...window, ...place, entries: all };
  const kept = countKept(all.toReversed().values());
  const trimmed = all[all.length - kept - 1];
  if (trimmed === undefined) return newer;
  return { ...newer, entries: all.slice(all.length - kept), before: trimmed.cursor, hasOlder: true };
}

/** Whether more lines would push others out. */
export function isFull({ entries }: LogWindow): boolean {
  return entries.length >= MOST_ENTRIES - TRIMMED_ENTRIES;
}

function countKept(entries: Iterable<LogEntry>): number {
  let count = 0;
  let characters = 0;
  for (const entry of entries) {
    characters += 'text' in entry ? entry.text.length : 0;
    if (count > 0 && characters > MOST_CHARACTERS) return count;
    count += 1;
  }
  return count > MOST_ENTRIES ? MOST_ENTRIES - TRIMMED_ENTRIES : count;
}
