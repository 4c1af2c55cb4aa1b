import { setTimeout as sleep } from 'node:timers/promises';
import { createLongshoreClient, type LongshoreClient, type Schemas } from '@longshore/client';
import { TERMINAL_STATES, type RunOption } from '@longshore/client/constants';
import { BEFORE_START } from './exchange.js';
import { check } from './scenario.js';
import { IMAGES, type ProgramInputs } from './program-traces.js';

/** A run as the service shows it. */
export type Run = Schemas['OpRun'];

export type RunExtras = Partial<Pick<Schemas['OpRunCreate'], 'image' | 'retry_policy' | 'outputs'>> &
  ContainerExtras;

/** What a run changes about its program, and what it needs of the machine. */
export type ContainerExtras = Partial<
  Pick<Schemas['OpRunCreate'], RunOption['name'] | 'artifacts' | 'constraints'>
>;

/** An entry of a timeline. */
export type TimelineEntry = Run['events'][number];

const POLL_MS = 50;

/** The kit's own client of the service, without the proxy. */
export class KitRuns {
  private readonly client: LongshoreClient;
  private readonly created: string[] = [];

  constructor(
    baseUrl: string,
    apiKey: string,
    /** How long anything may take, in milliseconds. */
    private readonly limitMs: number,
  ) {
    this.client = createLongshoreClient({ baseUrl, apiKey });
  }

  /** Creates a run. @param traceparent where in a trace it belongs @returns its id */
  async create(inputs: ProgramInputs, extras: RunExtras = {}, traceparent?: string): Promise<string> {
    const body = { image: IMAGES.plain, inputs: { ...inputs }, ...extras };
    const headers = traceparent === undefined ? {} : { traceparent };
    const { data, error } = await this.client.POST('/runs', { body, headers });
    if (data === undefined) throw new Error(`the kit could not create a run: ${error.detail}`);
    this.created.push(data.id);
    return data.id;
  }

  /** Has a schedule make an array of two runs of the program. @returns their ids, as soon as they are there */
  async createScheduledArray(inputs: ProgramInputs): Promise<string[]> {
    const params = { path: { id: inputs.mark } };
    const array = { size: 2, run: { image: IMAGES.plain, inputs: { ...inputs } } };
    const times = { cron: ['@yearly'], timezone: 'UTC', jitter_s: 0 };
    const body = { ...times, overlap: 'allow' as const, group: { array } };
    const stored = await this.client.PUT('/schedules/{id}', { params, body });
    if (stored.error !== undefined)
      throw new Error(`the kit could not store a schedule: ${stored.error.detail}`);
    const { data: fire } = await this.client.POST('/schedules/{id}/trigger', { params });
    const group = fire?.group_id ?? undefined;
    if (group === undefined) throw new Error('the kit could not fire a schedule');
    const deadline = performance.now() + this.limitMs;
    for (;;) {
      const { data: page } = await this.client.GET('/runs', { params: { query: { group } } });
      const ids = page?.data.map(({ id }) => id) ?? [];
      if (ids.length === array.size) {
        this.created.push(...ids);
        return ids;
      }
      if (performance.now() > deadline) throw new Error('the service did not make the runs of an array');
      await sleep(POLL_MS);
    }
  }

  /** Stores a secret. */
  async putSecret(name: string, value: string): Promise<void> {
    const params = { path: { name } };
    const { error } = await this.client.PUT('/secrets/{name}', { params, body: { kind: 'opaque', value } });
    if (error !== undefined) throw new Error(`the kit could not store a secret: ${error.detail}`);
  }

  /** The run with the newest of its timeline. */
  async get(id: string): Promise<Run> {
    const { data, error } = await this.client.GET('/runs/{id}', { params: { path: { id } } });
    if (data === undefined) throw new Error(`the kit could not read a run: ${error.detail}`);
    return data;
  }

  /** Cancels the run. */
  async cancel(id: string): Promise<void> {
    const { error } = await this.client.POST('/runs/{id}/cancel', { params: { path: { id } } });
    if (error !== undefined) throw new Error(`the kit could not cancel a run: ${error.detail}`);
  }

  /** Claims in the name of a worker. */
  async claimFor(workerId: string): Promise<readonly unknown[]> {
    const params = { path: { worker_id: workerId } };
    const { data, error } = await this.client.POST('/workers/{worker_id}/claim', { params });
    if (data === undefined) throw new Error(`the kit could not claim: ${error.detail}`);
    return data.ops;
  }

  /** @throws RuleViolation when that takes too long */
  async until(id: string, what: string, isSo: (run: Run) => boolean): Promise<Run> {
    const deadline = performance.now() + this.limitMs;
    for (;;) {
      const run = await this.get(id);
      if (isSo(run)) return run;
      check(performance.now() < deadline, `waited in vain until the run ${what}; ${describe(run)}`);
      await sleep(POLL_MS);
    }
  }

  /**
   * Waits until the run is in the state.
   * @param attempts how many it may have
   * @throws RuleViolation when it ends in another state, has more attempts, or takes too long
   */
  async untilState(id: string, state: string, attempts = 1): Promise<Run> {
    const run = await this.until(id, `is ${state}`, (now) => {
      check(now.current_attempt <= attempts, `attempt ${attempts} should be the last; ${describe(now)}`);
      return now.state === state || TERMINAL_STATES.has(now.state);
    });
    check(run.state === state, `the run should be ${state}; ${describe(run)}`);
    return run;
  }

  /** Cancels the runs that a scenario left, so that the next one finds an empty queue. */
  async endAll(): Promise<void> {
    for (const id of this.created.splice(0)) {
      if (!TERMINAL_STATES.has((await this.get(id)).state)) await this.cancel(id).catch(() => undefined);
    }
  }
}

/** A run's timeline as `1 STARTED, 1 PROGRESS 40, 1 COMPLETED`, without what not every worker reports. */
export function timelineOf({ events }: Run): string {
  return events
    .filter(({ type }) => !BEFORE_START.includes(type))
    .map(({ attempt, type, msg }) => `${attempt} ${type}${type === 'PROGRESS' ? ` ${msg}` : ''}`)
    .join(', ');
}

/** @throws RuleViolation unless the timeline reads so */
export function checkTimeline(run: Run, expected: string): void {
  check(timelineOf(run) === expected, `the timeline should be "${expected}" and is "${timelineOf(run)}"`);
}

/** A run in a few words. */
export function describe(run: Run): string {
  const message = run.execution_summary.error_message;
  const why = message === undefined ? '' : ` (${message.slice(0, 200)})`;
  return `it is ${run.state} at attempt ${run.current_attempt}${why}, timeline "${timelineOf(run)}"`;
}
