import { Backoff } from '@longshore/common/backoff';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { CliError, failureText, isRetryable, refusalOf } from '../cli-error.js';
import { RETRY, type Answered, type CallInit, type Session } from './session.js';

/** The service sends a comment every 15 seconds; a connection that is silent for longer is broken. */
const SILENCE_MS = 45_000;

type Body = AsyncIterable<Uint8Array>;

/** Options for reading a resumable stream. */
export interface StreamOptions {
  /** Opens the stream after the cursor, or from its start. */
  open(after: string | undefined, init: CallInit): Promise<Answered<unknown>>;
  readonly after?: string | undefined;
  /** Milliseconds without a response before reading fails. */
  readonly patienceMs: number;
  /** Called with the data of the event `end`, after all others. */
  readonly onEnd?: (data: string) => void;
  /** Ends reading without an error. */
  readonly signal?: AbortSignal;
}

/**
 * Yields the events of a stream in batches, each exactly once: a broken connection is reopened after the last id. Ends at
 * an event named `end` or when the signal aborts.
 * @throws CliError when the service rejects the request or does not respond for too long, and after Ctrl-C
 */
export async function* readStream(
  session: Session,
  options: StreamOptions,
): AsyncGenerator<readonly EventSourceMessage[]> {
  const { patienceMs, signal } = options;
  let { after } = options;
  let lastAnswer = Date.now();
  for (const backoff = new Backoff(RETRY); !hasEnded(signal);) {
    let reason = 'the connection ended';
    const idle = new IdleLimit(SILENCE_MS);
    const ends = [session.stop, idle.signal, ...(signal === undefined ? [] : [signal])];
    try {
      const answer = await options.open(after, { signal: AbortSignal.any(ends), redirect: 'manual' });
      const body = bodyOf(answer, session.url);
      if (typeof body === 'string') {
        reason = body;
      } else {
        backoff.reset();
        for await (const batch of parse(body, idle)) {
          lastAnswer = Date.now();
          const end = batch.findIndex(({ event }) => event === 'end');
          const events = end === -1 ? batch : batch.slice(0, end);
          if (events.length > 0) yield events;
          after = events.at(-1)?.id ?? after;
          if (end === -1) continue;
          options.onEnd?.(batch[end]?.data ?? '');
          return;
        }
        lastAnswer = Date.now();
      }
    } catch (error) {
      if (error instanceof CliError) throw error;
      session.throwIfStopped();
      if (hasEnded(signal)) return;
      reason = failureText(error);
    } finally {
      idle.end();
    }
    const pauseMs = backoff.nextMs();
    if (Date.now() + pauseMs - lastAnswer > patienceMs) throw session.unreachableError(reason);
    await session.pause(pauseMs);
  }
}

/** @returns the body, or the reason to try again @throws CliError when the service rejects the request */
function bodyOf({ data, error, response }: Answered<unknown>, url: string): Body | string {
  if (response.ok && isBody(data)) return data;
  const refusal = refusalOf(error, response, url);
  if (isRetryable(error, response)) return refusal.message;
  throw refusal;
}

async function* parse(body: Body, idle: IdleLimit): AsyncGenerator<readonly EventSourceMessage[]> {
  let events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    idle.postpone();
    parser.feed(decoder.decode(chunk, { stream: true }));
    const batch = events;
    events = [];
    yield batch;
  }
}

function hasEnded(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

function isBody(data: unknown): data is Body {
  return typeof data === 'object' && data !== null && Symbol.asyncIterator in data;
}

/** Aborts when no data arrives for some time. */
class IdleLimit {
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout;

  constructor(ms: number) {
    this.timer = setTimeout(() => this.controller.abort(new Error('nothing came for too long')), ms);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  postpone(): void {
    this.timer.refresh();
  }

  end(): void {
    clearTimeout(this.timer);
  }
}
