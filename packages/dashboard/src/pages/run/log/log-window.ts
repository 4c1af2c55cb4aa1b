import type { LogEntry, LogPage } from './log-page.js';

/** Entries and characters that a tab holds of a log at most, however long the log is. */
const MOST_ENTRIES = 20_000;
const MOST_CHARACTERS = 8_000_000;
/** Trimmed at once, so that not every line that comes costs a copy. */
const TRIMMED_ENTRIES = 2000;

/** Adds what is in front of the window; what is too much goes at the other end. */
export function prepend(window: LogPage, { entries, before, hasOlder }: LogPage): LogPage {
  const all = [...entries, ...window.entries];
  const older = { ...window, before, hasOlder };
  const kept = countKept(all.values());
  const last = all[kept - 1];
  if (kept === all.length || last === undefined) return { ...older, entries: all };
  return { ...older, entries: all.slice(0, kept), after: last.cursor, isAtEnd: false, isComplete: false };
}

/** Adds what is behind the window; what is too much goes at the other end. */
export function append(
  window: LogPage,
  { entries, after, isAtEnd, isComplete, leftOut }: Omit<LogPage, 'before' | 'hasOlder'>,
): LogPage {
  const all = entries.length === 0 ? window.entries : [...window.entries, ...entries];
  const newer = { ...window, after, isAtEnd, isComplete, leftOut, entries: all };
  const kept = countKept(all.toReversed().values());
  const trimmed = all[all.length - kept - 1];
  if (trimmed === undefined) return newer;
  return { ...newer, entries: all.slice(all.length - kept), before: trimmed.cursor, hasOlder: true };
}

/** Whether more lines would push others out. */
export function isFull({ entries }: LogPage): boolean {
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
