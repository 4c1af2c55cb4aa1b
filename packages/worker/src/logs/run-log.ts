import type { Logger } from 'pino';
import type { WorkerContext } from '../worker-context.js';
import { readLog, type LogSinks } from './log-reader.js';
import { LogShipper } from './log-shipper.js';
import { LogTail } from './log-tail.js';
import type { LogLine } from '../runtime/runtime.js';

/** How long the report of a run's end waits for the rest of its log to be shipped, in milliseconds. */
const FLUSH_MS = 1_500;

/** How long the rest of a log is shipped after the end of its run was reported, in milliseconds. */
export const LINGER_MS = 15_000;

/** Begins the lines that the worker adds to the log of a run. */
const OWN_MARK = '[worker]';

/** Where the lines of a run's container go besides its log. */
export type EventSinks = Pick<LogSinks, 'sender' | 'signal'>;

/** The log of one attempt on its way from the container to the service. */
export class RunLog {
  private readonly tail = new LogTail();
  private shipper: LogShipper | null = null;
  private reading: Promise<void> = Promise.resolve();

  constructor(
    private readonly context: WorkerContext,
    private readonly run: { readonly runId: string; readonly logger: Logger },
  ) {}

  /** Begins to ship, now that the attempt (1-based) is known. */
  open(attempt: number): void {
    this.shipper = new LogShipper(this.context, { ...this.run, attempt });
  }

  /** Reads what a container prints, to its end. Never rejects. */
  read(lines: AsyncIterable<LogLine>, sinks: EventSinks): Promise<void> {
    const { tail, shipper, context, run } = this;
    const ship = ({ stream, text, part }: LogLine): void =>
      shipper?.push({ atMs: context.clock.epochMs(), stream, text, isContinued: part === 'rest' });
    this.reading = readLog(lines, { ...sinks, logger: run.logger, tail, ship });
    return this.reading;
  }

  /** The last lines that the container printed. */
  lastLines(): string[] {
    return this.tail.lines();
  }

  /**
   * Sends the rest, which ends when the container's output does. Waits for that, but not for long.
   * @param note what the worker has to say about the end, if it does
   */
  async finish(note: string | null): Promise<void> {
    const { shipper, context } = this;
    if (shipper === null) return;
    const shipped = this.reading.then(() => {
      const atMs = context.clock.epochMs();
      for (const text of note?.split('\n') ?? []) {
        shipper.push({ atMs, stream: 'stderr', text: `${OWN_MARK} ${text}`, isContinued: false });
      }
      shipper.end();
      return shipper.done;
    });
    const waited = new AbortController();
    await Promise.race([shipped, context.clock.sleep(FLUSH_MS, waited.signal)]);
    waited.abort();
  }

  /** Goes on shipping for a bounded time. Resolves when everything is shipped, or given up. */
  async linger(): Promise<void> {
    const { shipper, context } = this;
    if (shipper === null) return;
    const waited = new AbortController();
    await Promise.race([shipper.done, context.clock.sleep(LINGER_MS, waited.signal)]);
    waited.abort();
    shipper.close();
    await shipper.done;
  }

  /** Gives up what is not shipped yet. */
  close(): void {
    this.shipper?.close();
  }
}
