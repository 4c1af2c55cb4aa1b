import { EventEmitter, once } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import type { Schemas } from '@longshore/client';
import { TERMINAL_STATES } from '@longshore/client/constants';
import type { Session } from '../service/session.js';

/** How long the service holds a poll of a run that does not change, in seconds. */
const WAIT_S = 20;
/** A poll that a proxy answers sooner, although nothing has changed, is followed by a pause. */
const SOONEST_UNCHANGED_MS = 2_000;
/** Pause after a change, so that frequent events share a poll. */
const PAUSE_MS = 200;

/** A run as the latest poll found it. */
export interface RunUpdate {
  /** Without its events. */
  readonly run: Schemas['OpRun'];
  /** Events since the previous update, oldest first. */
  readonly events: readonly Schemas['PolledEvent'][];
}

/** Follows a run until it has ended by polls that the service holds, and reports every event once. */
export class RunPoller {
  private latest: RunUpdate | undefined;
  private failure: unknown;
  private etag: string | undefined;
  private lastEvent = -1;
  private readonly changes = new EventEmitter<{ change: [] }>();
  private isClosed = false;

  constructor(
    private readonly session: Session,
    readonly id: string,
    private readonly options: {
      /** Milliseconds without a response before polling fails. */
      readonly patienceMs: number;
      /** Called with every update before `until` resolves with it. */
      readonly onUpdate: (update: RunUpdate) => Promise<void>;
    },
  ) {}

  /** Reads the run and starts polling. @throws CliError when the run cannot be read */
  async start(): Promise<RunUpdate> {
    // Without patience, so that a wrong URL fails at once.
    const run = await this.readRun(0, undefined);
    const update = await this.publish(run, await this.readEvents(undefined));
    void this.pollUntilEnded();
    return update;
  }

  /**
   * Resolves with the first update whose run satisfies the condition.
   * @throws CliError when the run can no longer be read; the signal's reason when it aborts
   */
  async until(condition: (run: Schemas['OpRun']) => boolean, signal?: AbortSignal): Promise<RunUpdate> {
    for (;;) {
      if (this.latest !== undefined && condition(this.latest.run)) return this.latest;
      if (this.failure !== undefined) throw this.failure;
      signal?.throwIfAborted();
      await once(this.changes, 'change', signal && { signal }).catch(() => undefined);
    }
  }

  /** Stops polling. */
  close(): void {
    this.isClosed = true;
  }

  private async pollUntilEnded(): Promise<void> {
    const { session } = this;
    const { patienceMs } = this.options;
    try {
      while (this.latest === undefined || !TERMINAL_STATES.has(this.latest.run.state)) {
        const asked = performance.now();
        const run = await this.readRun(WAIT_S, patienceMs);
        if (this.isClosed) return;
        const before = this.latest?.run;
        const isUnchanged = isDeepStrictEqual(run, before);
        const earlyMs = isUnchanged ? SOONEST_UNCHANGED_MS - (performance.now() - asked) : 0;
        if (earlyMs > 0) await session.pause(earlyMs);
        if (run === before) continue;
        // Read after the run: one that has ended gets no further events, so these are complete.
        await this.publish(run, await this.readEvents(patienceMs));
        if (!TERMINAL_STATES.has(run.state)) await session.pause(PAUSE_MS);
      }
    } catch (error) {
      this.failure = error;
    }
    this.changes.emit('change');
  }

  /** @param wait seconds to wait for a change of the run that was read last */
  private readRun(wait: number, patienceMs: number | undefined): Promise<Schemas['OpRun']> {
    const { session, id, etag } = this;
    const query = { include_events: false, ...(wait === 0 ? {} : { wait, until: 'changed' as const }) };
    const header = etag === undefined ? {} : { 'If-None-Match': etag };
    const params = { path: { id }, query, header };
    return session.ask(async (init) => {
      const { data, error, response } = await session.client.GET('/runs/{id}', { params, ...init });
      this.etag = response.headers.get('ETag') ?? this.etag;
      return { data: response.status === 304 ? this.latest?.run : data, error, response };
    }, patienceMs);
  }

  /** Events that were not read yet. */
  private async readEvents(patienceMs: number | undefined): Promise<RunUpdate['events']> {
    const { session, id } = this;
    const params = { path: { id }, query: this.lastEvent < 0 ? {} : { after: this.lastEvent } };
    const { events } = await session.ask(
      (init) => session.client.GET('/runs/{id}/events', { params, ...init }),
      patienceMs,
    );
    this.lastEvent = events.at(-1)?.id ?? this.lastEvent;
    return events;
  }

  private async publish(run: Schemas['OpRun'], events: RunUpdate['events']): Promise<RunUpdate> {
    const update = { run, events };
    await this.options.onUpdate(update);
    this.latest = update;
    this.changes.emit('change');
    return update;
  }
}
