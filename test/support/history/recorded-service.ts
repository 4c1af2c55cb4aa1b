import { setTimeout as sleep } from 'node:timers/promises';
import type { Call, ClaimCall, Dependency, Entry, EventCall, Handed, Outcome, State } from './history.js';
import type { Wire, WireAnswer, WireRequest } from './wire.js';

/** A run that is created, as the body says. */
export interface Creation {
  readonly mark: string;
  readonly key: string | null;
  /** On top of image and mark. */
  readonly body: { readonly depends_on?: readonly Dependency[] };
}

/** An event that is sent. */
export interface Report extends Pick<EventCall, 'runId' | 'type' | 'mark' | 'key' | 'reporter'> {
  readonly msg: string | number;
  /** On top of the mark. */
  readonly payload?: object;
}

/** Who sends, and to which of the servers. */
export interface Sender {
  readonly actor: string;
  readonly server: number;
}

/** Pauses before a request without an answer is sent again, in milliseconds. */
const PAUSES = [20, 50, 100, 200, 300] as const;

/**
 * The service as clients and workers use it: each method sends one request to one of the servers and writes down what
 * was asked, when, and what became of it.
 */
export class RecordedService {
  readonly history: Call[] = [];
  /** When the newest acknowledgement of a write arrived. */
  lastAcknowledgedAt = 0;
  acknowledgedWrites = 0;

  constructor(private readonly wires: readonly Wire[]) {}

  get servers(): number {
    return this.wires.length;
  }

  /** Milliseconds since 1970; never goes back. */
  static now(): number {
    return performance.timeOrigin + performance.now();
  }

  async create(
    { actor, server }: Sender,
    { mark, key, body }: Creation,
  ): Promise<Outcome<{ runId: string }>> {
    const sent = { method: 'POST', path: '/runs', body: { image: 'load', inputs: { mark }, ...body } };
    const made = await this.#write(server, keyed(sent, key), (answer) => ({ runId: String(answer.id) }));
    this.history.push({ kind: 'create', actor, mark, key, dependsOn: body.depends_on ?? [], ...made });
    return made.outcome;
  }

  async report({ actor, server }: Sender, report: Report): Promise<Outcome<null>> {
    const { runId, type, msg, mark, key, reporter, payload } = report;
    const sent = keyed(
      { method: 'POST', path: `/runs/${runId}/events`, body: { type, msg, payload: { mark, ...payload } } },
      key,
    );
    const fence: Record<string, string> =
      reporter === null ? {} : { 'X-Worker-Id': reporter.worker, 'X-Run-Attempt': String(reporter.attempt) };
    const made = await this.#write(server, { ...sent, headers: { ...sent.headers, ...fence } }, () => null);
    this.history.push({ kind: 'event', actor, runId, type, mark, key, reporter, ...made });
    return made.outcome;
  }

  async command({ actor, server }: Sender, kind: 'cancel' | 'retry', runId: string): Promise<Outcome<null>> {
    const made = await this.#write(server, { method: 'POST', path: `/runs/${runId}/${kind}` }, () => null);
    this.history.push({ kind, actor, runId, ...made });
    return made.outcome;
  }

  async patch(
    { actor, server }: Sender,
    runId: string,
    body: { readonly state?: State; readonly priority?: number },
  ): Promise<Outcome<null>> {
    const made = await this.#write(server, { method: 'PATCH', path: `/runs/${runId}`, body }, () => null);
    this.history.push({ kind: 'patch', actor, runId, state: body.state ?? null, ...made });
    return made.outcome;
  }

  async claim(
    { actor, server }: Sender,
    {
      worker,
      tags,
      key,
      waitS,
    }: Pick<ClaimCall, 'worker' | 'tags'> & { readonly key: string; readonly waitS: number },
  ): Promise<Outcome<readonly Handed[]>> {
    const query = waitS > 0 ? `?wait=${waitS}` : '';
    const sent = { method: 'POST', path: `/workers/${worker}/claim${query}`, timeoutMs: waitS * 1000 + 2000 };
    const made = await this.#record(server, keyed(sent, key), (answer): readonly Handed[] =>
      answer.ops.map((op: { id: string; attempt: number }) => ({ runId: op.id, attempt: op.attempt })),
    );
    this.history.push({ kind: 'claim', actor, worker, tags, key, ...made });
    return made.outcome;
  }

  async heartbeat(
    { actor, server }: Sender,
    {
      worker,
      tags,
      running,
      timeoutMs,
    }: Pick<ClaimCall, 'worker' | 'tags'> & { running: readonly string[]; timeoutMs: number },
  ): Promise<Outcome<null>> {
    const body = {
      worker_id: worker,
      resources: { cpu_cores: 4, ram_mb: 4096, gpus: [] },
      tags,
      running_ops: running.map((id) => ({ id, image: 'load', inputs: {}, constraints: {} })),
    };
    const sent = { method: 'POST', path: '/workers/heartbeat', body, timeoutMs };
    const made = await this.#record(server, sent, () => null);
    this.history.push({ kind: 'heartbeat', actor, worker, running, ...made });
    return made.outcome;
  }

  async read({ actor, server }: Sender, runId: string): Promise<Outcome<readonly Entry[]>> {
    const sent = { method: 'GET', path: `/runs/${runId}/events` };
    const made = await this.#record(server, sent, (answer): readonly Entry[] => answer.events.map(toEntry));
    this.history.push({ kind: 'read', actor, runId, ...made });
    return made.outcome;
  }

  /** Sends a request that no history is about; undefined for whatever is not an answer of 2xx. */
  async ask(server: number, sent: WireRequest): Promise<WireAnswer | undefined> {
    const answer = await this.wires[server % this.wires.length]?.send(sent);
    return answer !== undefined && answer.status < 300 ? answer : undefined;
  }

  /** The same, with refusals. */
  async answer(sent: WireRequest): Promise<WireAnswer | undefined> {
    return this.wires[0]?.send(sent);
  }

  async #write<T>(
    server: number,
    sent: WireRequest,
    read: (body: WireAnswer['body']) => T,
  ): Promise<{ startedAt: number; endedAt: number; outcome: Outcome<T> }> {
    const made = await this.#record(server, sent, read);
    if (made.outcome.kind === 'answered') {
      this.lastAcknowledgedAt = made.endedAt;
      this.acknowledgedWrites += 1;
    }
    return made;
  }

  async #record<T>(
    server: number,
    sent: WireRequest,
    read: (body: WireAnswer['body']) => T,
  ): Promise<{ startedAt: number; endedAt: number; outcome: Outcome<T> }> {
    const startedAt = RecordedService.now();
    const answer = await this.wires[server % this.wires.length]?.send(sent);
    return { startedAt, endedAt: RecordedService.now(), outcome: outcomeOf(answer, read) };
  }
}

/**
 * Sends a request until it is known what became of it, each time to the next server. Only for requests that may be
 * repeated: those with a key.
 * @param goesOn asked before each repetition
 */
export async function untilKnown<T>(
  send: (server: number) => Promise<Outcome<T>>,
  firstServer: number,
  goesOn: () => boolean,
): Promise<Outcome<T>> {
  for (let tries = 0; ; tries += 1) {
    const outcome = await send(firstServer + tries);
    if (outcome.kind !== 'maybe' || !goesOn()) return outcome;
    await sleep(PAUSES[Math.min(tries, PAUSES.length - 1)]);
  }
}

/** The entry of an answer, as far as histories speak of it. */
export function toEntry(entry: { id: number; type: string; t: string; payload: { mark?: unknown } }): Entry {
  const { id, type, t, payload } = entry;
  return { id, type, t: Date.parse(t), mark: typeof payload.mark === 'string' ? payload.mark : null };
}

function keyed(sent: WireRequest, key: string | null): WireRequest {
  return key === null ? sent : { ...sent, headers: { ...sent.headers, 'Idempotency-Key': key } };
}

function outcomeOf<T>(answer: WireAnswer | undefined, read: (body: WireAnswer['body']) => T): Outcome<T> {
  if (answer === undefined || answer.status >= 500) return { kind: 'maybe' };
  if (answer.status >= 400) return { kind: 'refused', status: answer.status };
  return { kind: 'answered', value: read(answer.body) };
}
