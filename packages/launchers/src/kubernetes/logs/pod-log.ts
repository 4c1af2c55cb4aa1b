import type { Backoff } from '@longshore/common/backoff';
import type { Clock } from '@longshore/worker/process/clock';
import { splitLines } from '@longshore/worker/runtime/log-lines';
import type { LogLine } from '@longshore/worker/runtime/runtime';
import { ApiError } from '../api/kubernetes-api.js';
import { liveChunks } from './live-chunks.js';
import { LogPosition } from './log-position.js';

/** How long a log that is followed may be silent after the end of the container, in milliseconds. */
const SILENT_AT_END_MS = 10_000;

/** How long a log that is not followed may be silent, in milliseconds. */
export const SILENT_MS = 30_000;

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
 * after the end of the container: one that follows can end too early, or never.
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
        const limit = isLast ? { limitMs: SILENT_MS } : { limitMs: SILENT_AT_END_MS, from: untilEnd };
        for await (const chunk of liveChunks(connect, { clock, ...limit }, signal)) {
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

      async function connect(until: AbortSignal): Promise<AsyncIterable<Buffer>> {
        const { since } = position;
        const options = { follow: !isLast, timestamps: true } as const;
        const stream = await source.open(
          since === undefined ? options : { ...options, sinceTime: since },
          until,
        );
        position.reconnect();
        return stream;
      }
    }
  }

  async function untilEnd(until: AbortSignal): Promise<void> {
    while (!source.hasEnded() && !until.aborted) await source.untilChanged(until).catch(() => undefined);
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
