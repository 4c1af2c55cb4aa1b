import type { Logger } from 'pino';
import { WORKER_PREFIX } from '@longshore/worker/logs/run-log';
import { whenAborted } from '@longshore/worker/process/clock';
import { EngineFault, type LogLine } from '@longshore/worker/runtime/runtime';
import type { Engine, EngineJob } from './engine.js';
import type { EndTimeout } from './engine-requests.js';

interface JobLogParts {
  readonly engine: Engine;
  readonly endTimeout: EndTimeout;
  readonly logger: Logger;
  /** Aborted when the service has accepted STARTED. */
  readonly started: AbortSignal;
  /** Takes the lines of the job to their end. Never rejects. */
  readonly take: (lines: AsyncIterable<LogLine>, job: EngineJob) => Promise<void>;
}

/** The log of a job: it is read once to its end, as it has more than an earlier process has stored. */
export class JobLog {
  /** Why it is not complete; null: it is. */
  missing: string | null = null;
  /** Resolves when all is read. */
  reading: Promise<void> = Promise.resolve();
  private readonly ended = new AbortController();
  private hasBegun = false;

  constructor(private readonly parts: JobLogParts) {}

  begin(job: EngineJob): void {
    if (this.hasBegun) return;
    this.hasBegun = true;
    const { engine, endTimeout, take } = this.parts;
    this.reading = take(this.inOrder(endTimeout.watch(engine.readLines(job, this.ended.signal))), job);
  }

  /** Reads no further. */
  end(): void {
    this.ended.abort();
  }

  /** Waits for the lines of an ended container, for a limited time. */
  async rest(): Promise<void> {
    const { endTimeout, logger } = this.parts;
    try {
      await endTimeout.limit('the rest of the log', () => this.reading);
    } catch (error) {
      if (!(error instanceof EngineFault)) throw error;
      logger.warn({ error: error.message }, 'the log is not complete');
      this.missing = `The log is not complete: ${error.message}`;
      this.end();
    }
  }

  /** Lines of the program wait for STARTED, as they may have events. */
  private async *inOrder(lines: AsyncIterable<LogLine>): AsyncGenerator<LogLine> {
    const { started } = this.parts;
    const either = AbortSignal.any([started, this.ended.signal]);
    for await (const line of lines) {
      if (!started.aborted && !line.text.startsWith(WORKER_PREFIX)) await whenAborted(either);
      yield line;
    }
  }
}
