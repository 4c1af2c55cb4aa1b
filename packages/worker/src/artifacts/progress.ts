import type { Clock } from '../process/clock.js';

/** Between two lines about one file on its way, in milliseconds. */
const EVERY_MS = 10_000;

/** Tells the log of a run how files move. */
export interface TransferLog {
  readonly clock: Clock;
  /** Adds a line to the log of the run. */
  readonly note: (text: string) => void;
}

export interface Transfer {
  /** Such as `fetching`. */
  readonly doing: string;
  /** Such as `fetched`. */
  readonly done: string;
  /** Of the file, for people. */
  readonly what: string;
  /** Null: not known. */
  readonly total: number | null;
}

/** Moves a file, with a line for each 10 s and one at its end. @param move gets what counts the bytes that have moved */
export async function withProgress<T>(
  { clock, note }: TransferLog,
  { doing, done, what, total }: Transfer,
  move: (count: (bytes: number) => void) => Promise<T>,
): Promise<T> {
  const startMs = clock.nowMs();
  const over = new AbortController();
  let moved = 0;
  void tell();
  try {
    const result = await move((bytes) => {
      moved = bytes;
    });
    note(`${done} ${what}: ${moved} bytes in ${((clock.nowMs() - startMs) / 1000).toFixed(1)} s`);
    return result;
  } finally {
    over.abort();
  }

  async function tell(): Promise<void> {
    for (;;) {
      await clock.sleep(EVERY_MS, over.signal);
      if (over.signal.aborted) return;
      note(`${doing} ${what}: ${moved}${total === null ? '' : ` of ${total}`} bytes`);
    }
  }
}
