import { text } from 'node:stream/consumers';
import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '@longshore/worker/process/clock';
import { splitLines } from '@longshore/worker/runtime/log-lines';
import { type LogLine, EngineFault } from '@longshore/worker/runtime/runtime';
import { ApiError } from '../api/kubernetes-api.js';
import { LogPosition } from './log-position.js';
import type { RemovalParts } from '../job-lifecycle.js';
import { OUTPUTS_CONTAINER } from '../manifest/names.js';
import { parseOutputFrame } from '../manifest/output-frame.js';

/** How long a log that is followed may be silent after the end of the container, in milliseconds. */
const SILENT_AT_END_MS = 10_000;

/** How long a log that is not followed may be silent, in milliseconds. */
const SILENT_MS = 30_000;

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
function isLogGone(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 400);
}

/** How long a connection may be silent while the reader waits for it. */
interface SilenceLimit {
  readonly clock: Clock;
  readonly limitMs: number;
  /** Resolves when the limit begins to hold; absent: at once. */
  readonly from?: (signal: AbortSignal) => Promise<void>;
}

/**
 * The chunks of a connection. A load balancer can drop a connection without telling either side, and a node can stop to write to it: one that
 * is silent for too long is ended with an error. Time in which the reader is busy does not count.
 */
async function* liveChunks(
  open: (signal: AbortSignal) => Promise<AsyncIterable<Buffer>>,
  { clock, limitMs, from }: SilenceLimit,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const silent = new AbortController();
  const over = new AbortController();
  let waitingSinceMs: number | null = clock.nowMs();
  void watch();
  try {
    for await (const chunk of await open(AbortSignal.any([signal, silent.signal]))) {
      waitingSinceMs = null;
      yield chunk;
      waitingSinceMs = clock.nowMs();
    }
  } finally {
    over.abort();
  }

  async function watch(): Promise<void> {
    await from?.(over.signal);
    const beganMs = clock.nowMs();
    while (!over.signal.aborted) {
      const nowMs = clock.nowMs();
      const leftMs = Math.max(waitingSinceMs ?? nowMs, beganMs) + limitMs - nowMs;
      if (leftMs <= 0) silent.abort(new Error(`the log gave nothing for ${limitMs / 1000} s`));
      if (silent.signal.aborted) return;
      await clock.sleep(leftMs, over.signal);
    }
  }
}

const RETRY = { firstMs: 250, maxMs: 10_000 };

/** How often a log without a complete frame is read: a node may need a moment to write it. */
const MOST_INCOMPLETE = 8;

/**
 * The output file in the log of the last container of a pod.
 * @returns null when there is none
 * @throws RunFault when it cannot be used
 * @throws EngineFault when the log is gone
 */
export async function readOutputs(
  { api, paths, clock }: Pick<RemovalParts, 'api' | 'paths' | 'clock'>,
  podName: string,
  signal: AbortSignal,
): Promise<Buffer | null> {
  const backoff = new Backoff(RETRY, Math.random);
  for (let incomplete = 0; incomplete < MOST_INCOMPLETE;) {
    const log = await readLog();
    const file = log === null ? undefined : parseOutputFrame(log);
    if (file !== undefined) return file;
    if (log !== null) incomplete += 1;
    await clock.sleep(backoff.nextMs(), signal);
    signal.throwIfAborted();
  }
  throw new EngineFault('The log with the outputs of the run is not complete');

  /** @returns null when the API server or the node does not answer */
  async function readLog(): Promise<string | null> {
    try {
      const query = { container: OUTPUTS_CONTAINER };
      const open = (until: AbortSignal) => api.stream(paths.log(podName), query, until);
      return await text(liveChunks(open, { clock, limitMs: SILENT_MS }, signal));
    } catch (error) {
      signal.throwIfAborted();
      if (isLogGone(error))
        throw new EngineFault('The log with the outputs of the run is gone', { cause: error });
      return null;
    }
  }
}
