import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Schemas } from '@longshore/client';
import { isTerminal } from './run-view.js';
import type { Session } from './session.js';

const POLL_MS = 500;

/** A run as the latest poll found it. */
export interface RunUpdate {
  /** Without its events. */
  readonly run: Schemas['OpRun'];
  /** Events since the previous update, oldest first. */
  readonly events: readonly Schemas['PolledEvent'][];
}

/** Polls a run until it has ended, and reports every event once. */
export class RunPoller {
  private latest: RunUpdate | undefined;
  private failure: unknown;
  private lastEvent = -1;
  private readonly closed = new AbortController();
  private readonly changes = new EventEmitter<{ change: [] }>();
  private pollNow = new AbortController();

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
    const update = await this.poll(undefined);
    void this.pollUntilEnded();
    return update;
  }

  /**
   * Resolves with the first update whose run satisfies the condition.
   * @throws CliError when the run can no longer be read; the signal's reason when it aborts
   */
  async until(condition: (run: Schemas['OpRun']) => boolean, signal?: AbortSignal): Promise<RunUpdate> {
    this.pollNow.abort();
    for (;;) {
      if (this.latest !== undefined && condition(this.latest.run)) return this.latest;
      if (this.failure !== undefined) throw this.failure;
      signal?.throwIfAborted();
      await once(this.changes, 'change', signal && { signal }).catch(() => undefined);
    }
  }

  /** Stops polling. */
  close(): void {
    this.closed.abort();
  }

  private async pollUntilEnded(): Promise<void> {
    try {
      while (this.latest === undefined || !isTerminal(this.latest.run.state)) {
        this.pollNow = new AbortController();
        const signal = AbortSignal.any([this.pollNow.signal, this.closed.signal, this.session.stop]);
        await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
        if (this.closed.signal.aborted) return;
        await this.poll(this.options.patienceMs);
      }
    } catch (error) {
      this.failure = error;
    }
    this.changes.emit('change');
  }

  private async poll(patienceMs: number | undefined): Promise<RunUpdate> {
    const { session, id } = this;
    const { client } = session;
    const ofRun = { path: { id }, query: { include_events: false } };
    const run = await session.ask((init) => client.GET('/runs/{id}', { params: ofRun, ...init }), patienceMs);
    const before = this.latest?.run;
    // Every event changes `updatedAt`: when it is the same there are no new events.
    if (before !== undefined && before.updatedAt === run.updatedAt && before.state === run.state) {
      return { run, events: [] };
    }
    // Read after the run: a run that has ended gets no further events, so these are complete.
    const after = this.lastEvent;
    const ofEvents = { path: { id }, query: after < 0 ? {} : { after } };
    const { events } = await session.ask(
      (init) => client.GET('/runs/{id}/events', { params: ofEvents, ...init }),
      patienceMs,
    );
    this.lastEvent = events.at(-1)?.id ?? after;
    const update = { run, events };
    if (!this.closed.signal.aborted) await this.options.onUpdate(update);
    this.latest = update;
    this.changes.emit('change');
    return update;
  }
}
