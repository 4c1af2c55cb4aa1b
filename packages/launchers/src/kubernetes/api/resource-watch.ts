import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '@longshore/worker/process/clock';
import type { RuntimeLog } from '@longshore/worker/runtime/runtime';
import { asApiError, type KubernetesApi } from './kubernetes-api.js';
import { errorText } from '@longshore/common/errors';

/** Duration of one watch, in seconds; the API server ends it. */
export const WATCH_SECONDS = 60;

/** Time after the end of a watch at which its connection counts as dead, in milliseconds. */
const DEAD_AFTER_MS = 15_000;

/** Time between two complete lists, in milliseconds. */
export const RELIST_MS = 300_000;

/** A watch that ends earlier than this is repeated after a pause, in milliseconds. */
const SHORT_WATCH_MS = 1_000;

const RETRY = { firstMs: 500, maxMs: 15_000 };

interface Versioned {
  readonly metadata?: { readonly resourceVersion?: string };
}

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: T;
}

/** Receives the state of the resources. */
export interface ResourceListener<T> {
  /** @param startedAtMs monotonic time before the list; objects created later may be missing */
  onList(items: readonly T[], startedAtMs: number): void;
  onChange(item: T): void;
  onDelete(item: T): void;
}

export interface WatchOptions<T> {
  readonly api: KubernetesApi;
  readonly path: string;
  readonly labelSelector: string;
  readonly listener: ResourceListener<T>;
  readonly clock: Clock;
  readonly log: RuntimeLog;
}

/**
 * One list and watch of the resources under a path. Every failure, the status 410 among them, leads to a complete list; so
 * does the passing of `RELIST_MS`. A watch cannot be silent for longer than `WATCH_SECONDS` and some seconds.
 */
export class ResourceWatch<T extends Versioned> {
  constructor(private readonly options: WatchOptions<T>) {}

  /** Lists once. @returns where `follow` continues */
  async list(signal: AbortSignal): Promise<string> {
    const { api, path, labelSelector, listener, clock } = this.options;
    const startedAtMs = clock.nowMs();
    const { items, version } = await api.list<T>(path, { labelSelector }, signal);
    listener.onList(items, startedAtMs);
    return version;
  }

  /** Keeps the listener current until the signal is aborted. Never rejects. */
  async follow(from: string, signal: AbortSignal): Promise<void> {
    const { clock, log, path } = this.options;
    const backoff = new Backoff(RETRY, Math.random);
    let version: string | null = from;
    let relistAt = clock.nowMs() + RELIST_MS;
    while (!signal.aborted) {
      try {
        if (version === null || clock.nowMs() >= relistAt) {
          version = await this.list(signal);
          relistAt = clock.nowMs() + RELIST_MS;
        }
        const startedAt = clock.nowMs();
        version = await this.watch(version, signal);
        if (clock.nowMs() - startedAt >= SHORT_WATCH_MS) backoff.reset();
        else await clock.sleep(backoff.nextMs(), signal);
      } catch (error) {
        if (signal.aborted) return;
        version = null;
        log.info({ path, error: errorText(error) }, 'listing again');
        await clock.sleep(backoff.nextMs(), signal);
      }
    }
  }

  private async watch(from: string, signal: AbortSignal): Promise<string> {
    const { api, path, labelSelector, listener, clock } = this.options;
    const dead = new AbortController();
    const over = new AbortController();
    void clock
      .sleep(WATCH_SECONDS * 1000 + DEAD_AFTER_MS, over.signal)
      .then(() => dead.abort(new Error('the watch was silent')));
    try {
      const query = {
        labelSelector,
        watch: true,
        resourceVersion: from,
        allowWatchBookmarks: true,
        timeoutSeconds: WATCH_SECONDS,
      };
      let version = from;
      const stream = await api.stream(path, query, AbortSignal.any([signal, dead.signal]));
      for await (const line of readLines(stream)) {
        const { type, object }: WatchEvent<T> = JSON.parse(line);
        if (type === 'ERROR') throw asApiError(codeOf(object), object);
        if (type === 'DELETED') listener.onDelete(object);
        else if (type !== 'BOOKMARK') listener.onChange(object);
        version = object.metadata?.resourceVersion ?? version;
      }
      return version;
    } finally {
      over.abort();
    }
  }
}

/** Lines of a stream; an unfinished last one is dropped. */
async function* readLines(stream: AsyncIterable<Buffer>): AsyncGenerator<string, void, undefined> {
  let held: Buffer[] = [];
  for await (const chunk of stream) {
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, from)) {
      yield Buffer.concat([...held, chunk.subarray(from, end)]).toString();
      held = [];
      from = end + 1;
    }
    if (from < chunk.length) held.push(chunk.subarray(from));
  }
}

function codeOf(object: object): number {
  const code: unknown = Reflect.get(object, 'code');
  return typeof code === 'number' ? code : 500;
}
