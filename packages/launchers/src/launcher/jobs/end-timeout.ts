import type { Clock } from '@longshore/worker/process/clock';
import { EngineFault, type LogLine } from '@longshore/worker/runtime/runtime';
import type { Engine } from '../engine.js';

/** Interval between checks of what an engine has given, in milliseconds. */
const POLL_INTERVAL_MS = 30_000;

/** Timeout while the engine answers, in milliseconds. */
const TIMEOUT_MS = 300_000;

/**
 * Limits the wait for the remaining log and the outputs of an ended job: an engine may answer and never give them, as when
 * only the node of the job is unavailable. Outages of the engine and time in which the reader of the log is busy do not count.
 */
export class EndTimeout {
  /** Lines so far. */
  private given = 0;
  private isReaderBusy = false;

  constructor(
    private readonly engine: Engine,
    private readonly clock: Clock,
  ) {}

  /** The lines; one that comes shows that the engine gives what there is. */
  async *watch(lines: AsyncIterable<LogLine>): AsyncGenerator<LogLine> {
    for await (const line of lines) {
      this.given += 1;
      this.isReaderBusy = true;
      yield line;
      this.isReaderBusy = false;
    }
  }

  /**
   * @param what the task waits for
   * @throws EngineFault when the engine has not given it for {@link TIMEOUT_MS}; the signal of the task is then aborted
   */
  async limit<T>(what: string, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const minutes = TIMEOUT_MS / 60_000;
    const end = this.untilTimeout(over.signal).then(() => {
      if (!over.signal.aborted)
        throw new EngineFault(`${this.engine.name} has not given ${what} for ${minutes} minutes`);
      return new Promise<never>(() => undefined);
    });
    try {
      return await Promise.race([task(over.signal), end]);
    } finally {
      over.abort();
    }
  }

  private async untilTimeout(signal: AbortSignal): Promise<void> {
    let silentMs = 0;
    while (silentMs < TIMEOUT_MS) {
      const before = this.given;
      await this.clock.sleep(POLL_INTERVAL_MS, signal);
      if (signal.aborted) return;
      const isSilent = !this.isReaderBusy && this.given === before;
      silentMs = isSilent && (await this.answers()) ? silentMs + POLL_INTERVAL_MS : 0;
    }
  }

  private async answers(): Promise<boolean> {
    try {
      await this.engine.probe();
      return true;
    } catch {
      return false;
    }
  }
}
