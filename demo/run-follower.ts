import { setTimeout as sleep } from 'node:timers/promises';
import type { LongshoreClient, Schemas } from '@longshore/client';
import { TERMINAL_STATES, type RunState } from '@longshore/client/constants';

const POLL_MS = 200;
const REQUEST_MS = 10_000;
/** Name of the API key of the demo's worker. */
const WORKER_KEY = 'demo worker';

/** A run as the latest poll found it. */
export interface RunUpdate {
  readonly state: RunState;
  /** 0-100. */
  readonly progress: number;
  /** Events since the previous update, oldest first. */
  readonly events: readonly Schemas['PolledEvent'][];
}

/** An ended run with its complete timeline. */
export interface EndedRun {
  readonly run: Schemas['OpRun'];
  readonly events: readonly Schemas['PolledEvent'][];
}

/**
 * Creates an API key that is bound to the worker. Revokes those of earlier demos, whose secrets are lost.
 * @throws Error with the response when the service refuses
 */
export async function createWorkerKey(client: LongshoreClient, workerId: string): Promise<string> {
  const signal = AbortSignal.timeout(REQUEST_MS);
  const { data: keys, error: unread } = await client.GET('/api-keys', { signal });
  for (const { id, name, revoked_at } of keys ?? refuse('list the API keys', unread)) {
    if (name !== WORKER_KEY || revoked_at !== null) continue;
    await client.DELETE('/api-keys/{id}', { params: { path: { id } }, signal });
  }
  const { data, error } = await client.POST('/api-keys', {
    body: { name: WORKER_KEY, scopes: ['worker'], worker_ids: [workerId] },
    signal,
  });
  return data?.key ?? refuse('create an API key', error);
}

/** Stores a definition and creates a run from it. @throws Error with the response when the service refuses */
export async function createRun(
  client: LongshoreClient,
  definition: Schemas['OpDefinitionCreate'],
  inputs: Schemas['DefinitionRunCreate']['inputs'] & object,
): Promise<Schemas['OpRun']> {
  const signal = AbortSignal.timeout(REQUEST_MS);
  const { id: name, version } = definition;
  const stored = await client.POST('/definitions', { body: definition, signal });
  if (stored.error !== undefined) refuse(`store the definition ${name}`, stored.error);
  const params = { path: { name }, query: { version } };
  const { data, error } = await client.POST('/definitions/{name}/runs', { params, body: { inputs }, signal });
  return data ?? refuse(`create a run of ${name}`, error);
}

/** Changes the priority of a run as an admin. @throws Error with the response when the service refuses */
export async function changePriority(client: LongshoreClient, id: string, priority: number): Promise<void> {
  const signal = AbortSignal.timeout(REQUEST_MS);
  const { error } = await client.PATCH('/runs/{id}', {
    params: { path: { id } },
    body: { priority },
    signal,
  });
  if (error !== undefined) refuse(`change run ${id}`, error);
}

/**
 * Polls a run until it has ended. Repeats a request without a response.
 * @throws Error with the response when the service refuses; the signal's reason when it aborts
 */
export async function followRun(
  client: LongshoreClient,
  id: string,
  onUpdate: (update: RunUpdate) => void,
  signal: AbortSignal,
): Promise<EndedRun> {
  const known: Schemas['PolledEvent'][] = [];
  for (;;) {
    const run = await withRetries(() => getRun(client, id), signal);
    // Read after the run: a run that has ended gets no further events, so these are complete.
    const fresh = await withRetries(() => getEvents(client, id, known.length - 1), signal);
    known.push(...fresh);
    onUpdate({ state: run.state, progress: run.progress, events: fresh });
    if (TERMINAL_STATES.has(run.state)) return { run, events: known };
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function getRun(client: LongshoreClient, id: string): Promise<Schemas['OpRun']> {
  const params = { path: { id }, query: { include_events: false } };
  const { data, error } = await client.GET('/runs/{id}', {
    params,
    signal: AbortSignal.timeout(REQUEST_MS),
  });
  return data ?? refuse(`read run ${id}`, error);
}

async function getEvents(
  client: LongshoreClient,
  id: string,
  after: number,
): Promise<Schemas['PolledEvent'][]> {
  const params = { path: { id }, query: { after } };
  const { data, error } = await client.GET('/runs/{id}/events', {
    params,
    signal: AbortSignal.timeout(REQUEST_MS),
  });
  return data?.events ?? refuse(`read the events of run ${id}`, error);
}

class Refused extends Error {}

function refuse(what: string, answer: unknown): never {
  throw new Refused(`the service did not ${what}: ${JSON.stringify(answer)}`);
}

/** Repeats a call while the connection fails; the demo detects separately when the service has ended. */
async function withRetries<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}
