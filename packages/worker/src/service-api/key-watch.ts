import { Backoff } from '@longshore/common/backoff';
import type { Logger } from 'pino';
import type { Clock } from '../process/clock.js';
import type { ServiceTerms } from '../worker-context.js';
import type { Answer, KeyView, Refusal, ServiceApi } from './service-api.js';

/** Refusals of one request, or of GET /whoami, in a row that confirm it. */
const CONFIRMATIONS = 5;

/** How long the key is asked about before the first accepted heartbeat, at most, in milliseconds: there is no run to lose. */
const FIRST_DOUBT_MS = 5_000;

/** Requests whose refusals are counted, at most. */
const MAX_FORBIDDEN = 1000;

/** `doubted`: a request was answered with 401 or 403, which may be one of several servers; `refused`: confirmed. */
export type KeyState = 'accepted' | 'doubted' | 'refused';

export interface KeyWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  readonly workerId: string;
  readonly terms: Readonly<ServiceTerms>;
  /** Called once, when the refusal of the key is confirmed. */
  readonly onRefused: (refusal: Refusal) => void;
}

interface Forbidden {
  readonly sinceMs: number;
  count: number;
}

/**
 * Decides whether the service refuses the worker's key. One 401 or 403 is no proof: it is confirmed by GET /whoami, several
 * times over a period. Until then, and afterwards, callers see a service that does not answer, and repeat their requests.
 * What is refused for a whole period while other requests are accepted is refused for itself, also by a proxy.
 */
export class KeyWatch {
  /** The service with requests whose 401 and 403 are `unreachable`. */
  readonly api: ServiceApi;
  private current: KeyState = 'accepted';
  /** Aborted when the key is accepted after all. */
  private doubt = new AbortController();
  private acceptedAtMs = 0;
  /** Requests that were forbidden at every try, the oldest first. */
  private readonly forbidden = new Map<string, Forbidden>();

  constructor(
    private readonly service: ServiceApi,
    private readonly options: KeyWatchOptions,
  ) {
    const settle = async <T>(answer: Promise<Answer<T>>, request: string) =>
      this.settle(await answer, request);
    const settleReport = async <T>(answer: Promise<Answer<T>>, request: string) =>
      this.settle(this.settleProxy(await answer, request), request);
    this.api = {
      whoami: () => service.whoami(),
      heartbeat: (...call) => settle(service.heartbeat(...call), 'heartbeat'),
      claim: (...call) => settle(service.claim(...call), 'claim'),
      removeWorker: (id) => settle(service.removeWorker(id), 'removal'),
      getRun: (id, holder) => settle(service.getRun(id, holder), `run ${id}`),
      listHeld: (id) => settle(service.listHeld(id), 'held runs'),
      getTimeline: (id) => settle(service.getTimeline(id), `timeline ${id}`),
      getSecrets: (id, holder) => settle(service.getSecrets(id, holder), `secrets ${id}`),
      getUploads: (id, request, holder) => settle(service.getUploads(id, request, holder), `uploads ${id}`),
      postEvent: (id, event, reporter) =>
        settleReport(service.postEvent(id, event, reporter), `event ${id} ${reporter.idempotencyKey}`),
      putLogChunk: (address, chunk, signal) =>
        settleReport(
          service.putLogChunk(address, chunk, signal),
          `log ${address.runId} ${address.attempt} ${address.number}`,
        ),
    };
  }

  get state(): KeyState {
    return this.current;
  }

  /** How long the refusals must last, in milliseconds. After the worker timeout the service gives the runs to others anyway. */
  private periodMs(): number {
    const { workerTimeoutSeconds, registered } = this.options.terms;
    const timeoutMs = workerTimeoutSeconds * 1000;
    return registered.signal.aborted ? timeoutMs : Math.min(timeoutMs, FIRST_DOUBT_MS);
  }

  /** @param request a refusal that stands while the key is accepted concerns this request alone */
  private settle<T>(answer: Answer<T>, request: string): Answer<T> {
    if (!isKeyRefusal(answer)) {
      if (answer.kind === 'ok') this.accept();
      if (answer.kind !== 'unreachable') this.forbidden.delete(request);
      return answer;
    }
    if (this.stands(request)) {
      this.forbidden.delete(request);
      return answer;
    }
    if (this.current === 'accepted') void this.confirm(answer);
    return { kind: 'unreachable', reason: `HTTP ${answer.status}: ${answer.detail}` };
  }

  /** What a report is answered that a proxy refuses, while it lets other requests pass. */
  private settleProxy<T>(answer: Answer<T>, request: string): Answer<T> {
    if (answer.kind !== 'unreachable' || answer.refusedBytes === undefined) return answer;
    // An answer soon after the first refusal may be of a heartbeat that waited since before it.
    const acceptedMs = this.options.clock.nowMs() - this.acceptedAtMs;
    if (!this.stands(request) || acceptedMs >= this.periodMs() / 2) return answer;
    const { status = 0, refusedBytes } = answer;
    const detail = `a proxy in front of the service refuses ${refusedBytes} bytes with HTTP ${status}`;
    return { kind: 'refused', status, detail, isByProxy: true };
  }

  /** Whether the service forbids the request for the whole period, although it has accepted the key in the meantime. */
  private stands(request: string): boolean {
    const nowMs = this.options.clock.nowMs();
    const known = this.forbidden.get(request) ?? { sinceMs: nowMs, count: 0 };
    known.count += 1;
    this.forbidden.set(request, known);
    const [oldest] = this.forbidden.keys();
    if (this.forbidden.size > MAX_FORBIDDEN && oldest !== undefined) this.forbidden.delete(oldest);
    const isLong = known.count >= CONFIRMATIONS && nowMs - known.sinceMs >= this.periodMs();
    return isLong && this.acceptedAtMs > known.sinceMs;
  }

  private accept(): void {
    this.acceptedAtMs = this.options.clock.nowMs();
    if (this.current !== 'doubted') return;
    this.options.logger.info("the service accepts the worker's key after all");
    this.current = 'accepted';
    this.doubt.abort();
  }

  private async confirm(first: Refusal): Promise<void> {
    const { clock, logger, random, onRefused } = this.options;
    const { status, detail } = first;
    logger.warn({ status, detail }, "the service refused the worker's key: asking again by GET /whoami");
    this.current = 'doubted';
    this.doubt = new AbortController();
    const { signal } = this.doubt;
    const backoff = new Backoff({ firstMs: this.periodMs() / 8, maxMs: this.periodMs() / 3 }, random);
    const sinceMs = clock.nowMs();
    for (let refusals = 0; ;) {
      const answer = await this.service.whoami();
      if (signal.aborted) return;
      if (answer.kind === 'ok' && mayWork(answer.value, this.options.workerId)) {
        this.accept();
        return;
      }
      if (answer.kind === 'ok' || isKeyRefusal(answer)) refusals += 1;
      if (refusals >= CONFIRMATIONS && clock.nowMs() - sinceMs >= this.periodMs()) {
        this.current = 'refused';
        onRefused(first);
        return;
      }
      await clock.sleep(backoff.nextMs(answer.kind === 'unreachable' ? answer.retryAfterSeconds : 0), signal);
      if (signal.aborted) return;
    }
  }
}

function isKeyRefusal(answer: Answer<unknown>): answer is Refusal {
  return (
    answer.kind === 'refused' && answer.isByProxy !== true && (answer.status === 401 || answer.status === 403)
  );
}

/** Whether a key with these rights may act as the worker. */
function mayWork({ scopes, workerIds }: KeyView, workerId: string): boolean {
  const isBound = (id: string) => (id.endsWith('*') ? workerId.startsWith(id.slice(0, -1)) : id === workerId);
  const hasScope = scopes.includes('worker') || scopes.includes('admin');
  return hasScope && (workerIds === null || workerIds.some(isBound));
}
