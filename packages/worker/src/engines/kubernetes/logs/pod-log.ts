import type { Backoff } from '../../../backoff.js';
import type { Clock } from '../../../clock.js';
import { splitLines } from '../../../runtime/log-lines.js';
import type { LogLine } from '../../../runtime/runtime.js';
import { ApiError } from '../api/kubernetes-api.js';
import { LogPosition } from './log-position.js';

/** The log of one container. */
export interface LogSource {
  /** @throws ApiError @throws Error when there is no answer */
  open(query: LogQuery, signal: AbortSignal): Promise<AsyncIterable<Buffer>>;
  /** Whether the container writes nothing more. */
  hasEnded(): boolean;
  /** Resolves when that may have changed. @throws the signal's reason when it is aborted */
  untilChanged(signal: AbortSignal): Promise<void>;
}

/** Options of the API server, under its names. */
export interface LogQuery {
  readonly follow: boolean;
  readonly timestamps: true;
  readonly sinceTime?: string;
}

/**
 * The log of a container from its beginning to its end. A broken connection is continued. The last connection is opened
 * after the end of the container: one that follows can end too early.
 */
export function readPodLog(
  source: LogSource,
  clock: Clock,
  backoff: Backoff,
  signal: AbortSignal,
): AsyncIterable<LogLine> {
  return splitLines(contents());

  async function* contents(): AsyncGenerator<{ readonly stream: 'stdout'; readonly bytes: Buffer }> {
    const position = new LogPosition();
    for (;;) {
      signal.throwIfAborted();
      const isLast = source.hasEnded();
      try {
        const { since } = position;
        const options = { follow: !isLast, timestamps: true } as const;
        const stream = await source.open(
          since === undefined ? options : { ...options, sinceTime: since },
          signal,
        );
        position.reconnect();
        for await (const chunk of stream) {
          for (const bytes of position.take(chunk)) {
            backoff.reset();
            yield { stream: 'stdout', bytes };
          }
        }
        if (isLast) return;
      } catch (error) {
        signal.throwIfAborted();
        if (isLast && isLogGone(error)) return;
      }
      await pause();
    }
  }

  async function pause(): Promise<void> {
    const over = new AbortController();
    const either = AbortSignal.any([signal, over.signal]);
    const changed = source.untilChanged(either).catch(() => undefined);
    await Promise.race([clock.sleep(backoff.nextMs(), either), changed]);
    over.abort();
  }
}

/** 404: there is no pod; 400: it has no such log, as after an eviction. */
export function isLogGone(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 400);
}
