import { EventSourceParserStream } from 'eventsource-parser/stream';
import { useEffect, useEffectEvent, useState } from 'react';
import { SERVICE_URL } from '../lib/addresses.js';
import { useSession } from '../session/session-context.js';
import { serviceFetch } from './service-fetch.js';
import { ApiError, toApiError } from './answers.js';

/** How a stream stands: `waiting` before the next try, `ended` when the service has said that nothing will follow. */
export type StreamState = 'off' | 'connecting' | 'live' | 'waiting' | 'ended' | 'refused';

/** One event of a stream. */
export interface StreamEvent {
  readonly id: string | undefined;
  readonly data: string;
}

/** Which stream to read. */
export interface StreamSource {
  /** Path and query, such as `/feed/stream?topic=orders`; null: none. A change starts anew. */
  readonly path: string | null;
  /** Another number starts anew, as after an error. */
  readonly round?: number;
  /** The id to go on after at the first connect; later ones go on after the last event. */
  readonly after?: string;
  /** Called with the events that arrived together, in order. */
  readonly onEvents: (events: readonly StreamEvent[]) => void;
}

/** How a stream stands, and the error when the service refuses it. */
export interface StreamStatus {
  readonly state: StreamState;
  readonly error?: ApiError;
}

const OFF: StreamStatus = { state: 'off' };
const CONNECTING: StreamStatus = { state: 'connecting' };
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Reads Server-Sent Events with the API key, which EventSource cannot send. Connects again by itself and goes on where it
 * was (`Last-Event-ID`); the event `end` ends it.
 */
export function useSse({ path, round = 0, after, onEvents }: StreamSource): StreamStatus {
  const { apiKey, refuseKey } = useSession();
  const [status, setStatus] = useState<StreamStatus>(CONNECTING);
  const deliver = useEffectEvent(onEvents);
  const start = useEffectEvent(() => after);

  useEffect(() => {
    if (path === null) return undefined;
    const abort = new AbortController();
    const stream: Stream = { path, round, apiKey, lastId: start(), signal: abort.signal, deliver, setStatus };
    void follow(stream).catch((failure: unknown) => {
      if (abort.signal.aborted || !(failure instanceof ApiError)) return;
      if (failure.status === 401) refuseKey();
      setStatus({ state: 'refused', error: failure });
    });
    return () => abort.abort();
  }, [path, round, apiKey, refuseKey]);
  return path === null ? OFF : status;
}

interface Stream {
  readonly path: string;
  readonly round: number;
  readonly apiKey: string;
  readonly signal: AbortSignal;
  readonly deliver: (events: readonly StreamEvent[]) => void;
  readonly setStatus: (status: StreamStatus) => void;
  lastId: string | undefined;
}

/** Connects until the stream ends. @throws ApiError when the service refuses it */
async function follow(stream: Stream): Promise<void> {
  let pauseMs = FIRST_PAUSE_MS;
  while (!stream.signal.aborted) {
    stream.setStatus({ state: 'connecting' });
    const outcome = await readOnce(stream).catch((failure: unknown) => {
      if (failure instanceof ApiError && isFinal(failure)) throw failure;
      return 'failed' as const;
    });
    if (stream.signal.aborted) return;
    if (outcome === 'ended') {
      stream.setStatus({ state: 'ended' });
      return;
    }
    pauseMs = outcome === 'lost' ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    stream.setStatus({ state: 'waiting' });
    await pause(pauseMs, stream.signal);
  }
}

/** @returns `lost` when the connection was there and broke */
async function readOnce(stream: Stream): Promise<'ended' | 'lost'> {
  const headers = new Headers({ 'X-API-Key': stream.apiKey, Accept: 'text/event-stream' });
  if (stream.lastId !== undefined) headers.set('Last-Event-ID', stream.lastId);
  const response = await serviceFetch(SERVICE_URL + stream.path, { headers, signal: stream.signal });
  if (response.status === 204) return 'ended';
  if (!response.ok || response.body === null) {
    throw toApiError(response.status, await response.json().catch(() => undefined));
  }
  stream.setStatus({ state: 'live' });
  const batch = new Batch(stream);
  try {
    const events = response.body
      .pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array<ArrayBuffer>, string>)
      .pipeThrough(new EventSourceParserStream());
    const reader = events.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return 'lost';
      if (value.event === 'end') return 'ended';
      batch.add({ id: value.id, data: value.data });
    }
  } catch {
    return 'lost';
  } finally {
    batch.flush();
  }
}

/** Gathers what arrives within a frame, so that a burst of events is one change of the page. */
class Batch {
  private events: StreamEvent[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly stream: Stream) {}

  add(event: StreamEvent): void {
    this.events.push(event);
    this.timer ??= setTimeout(() => this.flush(), 16);
  }

  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    if (this.events.length === 0 || this.stream.signal.aborted) return;
    const { events } = this;
    this.events = [];
    this.stream.lastId = events.findLast(({ id }) => id !== undefined)?.id ?? this.stream.lastId;
    this.stream.deliver(events);
  }
}

/** Whether asking again is of no use. A 503 that gets here is about a part of the service that is switched off. */
function isFinal({ status }: ApiError): boolean {
  return (status < 500 && status !== 429) || status === 503;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
