import type { Clock } from '../../clock.js';
import { EngineFault, type LogLine } from '../../runtime/runtime.js';
import type { Engine } from '../engine.js';

/** Time between two looks at what an engine gives, in milliseconds. */
const LOOK_MS = 30_000;

/** How long an engine that answers is waited for, in milliseconds. */
const PATIENCE_MS = 300_000;

/**
 * Bounds the wait for what an ended job has left: an engine may answer and never give it, as when only the job's node is
 * away. An outage of the engine does not count, nor does time in which the reader of the log is busy.
 */
export class EndPatience {
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
   * @throws EngineFault when the engine has not given it for {@link PATIENCE_MS}; the signal of the task is then aborted
   */
  async limit<T>(what: string, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const minutes = PATIENCE_MS / 60_000;
    const end = this.untilPatienceEnds(over.signal).then(() => {
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

  private async untilPatienceEnds(signal: AbortSignal): Promise<void> {
    let silentMs = 0;
    while (silentMs < PATIENCE_MS) {
      const before = this.given;
      await this.clock.sleep(LOOK_MS, signal);
      if (signal.aborted) return;
      const isSilent = !this.isReaderBusy && this.given === before;
      silentMs = isSilent && (await this.answers()) ? silentMs + LOOK_MS : 0;
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
