import { setTimeout as sleep } from 'node:timers/promises';
import type { Schemas } from '@longshore/client';
import type { Session } from './session.js';
import { isTerminal } from './views/run-view.js';

const TICK_MS = 500;

/** What is new of a run. */
export interface RunNotifications {
  /** Without its events. */
  readonly run: Schemas['OpRun'];
  /** Events that were not told before, oldest first. */
  readonly events: readonly Schemas['PolledEvent'][];
}

/** Looks at a run until it has ended and tells what is new, every event once. */
export class RunTicker {
  private latest: RunNotifications | undefined;
  private failure: unknown;
  private lastEvent = -1;
  private readonly closed = new AbortController();
  private readonly waiting = new Set<() => void>();
  private wake = new AbortController();

  constructor(
    private readonly session: Session,
    readonly id: string,
    private readonly options: {
      readonly patienceMs: number;
      /** Told of everything new, and before anything that waits. */
      readonly tell: (news: RunNotifications) => Promise<void>;
    },
  ) {}

  /** The run as it is; from here on it is looked at. @throws CliError when it cannot be read */
  async start(): Promise<RunNotifications> {
    // A wrong URL is told at once: only a service that has answered is waited for.
    const news = await this.look(undefined);
    void this.goOn();
    return news;
  }

  /**
   * The first state of things that satisfies the condition.
   * @throws CliError when the run can no longer be read; the signal's reason when it aborts
   */
  async until(
    condition: (run: Schemas['OpRun']) => boolean,
    signal?: AbortSignal,
  ): Promise<RunNotifications> {
    // Whoever waits wants to know now.
    this.wake.abort();
    for (;;) {
      if (this.latest !== undefined && condition(this.latest.run)) return this.latest;
      if (this.failure !== undefined) throw this.failure;
      if (signal?.aborted === true) throw signal.reason;
      await new Promise<void>((resolve) => {
        const settle = (): void => {
          this.waiting.delete(settle);
          signal?.removeEventListener('abort', settle);
          resolve();
        };
        this.waiting.add(settle);
        signal?.addEventListener('abort', settle);
      });
    }
  }

  /** Ends the looking. */
  close(): void {
    this.closed.abort();
  }

  private async goOn(): Promise<void> {
    try {
      while (!this.closed.signal.aborted && !this.hasEnded()) {
        this.wake = new AbortController();
        const signal = AbortSignal.any([this.wake.signal, this.closed.signal, this.session.stop]);
        await sleep(TICK_MS, undefined, { signal }).catch(() => undefined);
        if (this.closed.signal.aborted) return;
        await this.look(this.options.patienceMs);
      }
    } catch (error) {
      this.failure = error;
    }
    for (const settle of this.waiting) settle();
  }

  private hasEnded(): boolean {
    return this.latest !== undefined && isTerminal(this.latest.run.state);
  }

  private async look(patienceMs: number | undefined): Promise<RunNotifications> {
    const { session, id } = this;
    const { client } = session;
    const ofRun = { path: { id }, query: { include_events: false } };
    const run = await session.ask((init) => client.GET('/runs/{id}', { params: ofRun, ...init }), patienceMs);
    const before = this.latest?.run;
    // Every event changes the run's time of change: without one there is nothing to fetch.
    if (before !== undefined && before.updatedAt === run.updatedAt && before.state === run.state) {
      return { run, events: [] };
    }
    // Read after the run: one that has ended takes no further events, so these are all of them.
    const after = this.lastEvent;
    const ofEvents = { path: { id }, query: after < 0 ? {} : { after } };
    const { events } = await session.ask(
      (init) => client.GET('/runs/{id}/events', { params: ofEvents, ...init }),
      patienceMs,
    );
    this.lastEvent = events.at(-1)?.id ?? after;
    const news = { run, events };
    if (!this.closed.signal.aborted) await this.options.tell(news);
    this.latest = news;
    for (const settle of this.waiting) settle();
    return news;
  }
}
