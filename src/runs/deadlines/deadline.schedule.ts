import { Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Notifications } from '../../database/notifications.js';
import { currentTime } from '../../database/sql.js';
import { isDatabaseUnavailable } from '../../database/unavailable.js';
import { Log } from '../../logging/logger.js';
import { JournalOverloaded } from '../run.errors.js';
import { DeadlineJob } from './deadline.job.js';
import { DEADLINE_CHANNEL, DeadlineRepository } from './deadline.repository.js';

/** Longest time without a look, should an announcement ever be missed. */
const LOOK_EVERY_MS = 5 * 60_000;
/** Processes come at different instants within this time, so that mostly one of them finds all the work. */
const SPREAD_MS = 20;
/** Pause after a look that found only what another process was carrying out. */
const LEAVE_IT_TO_OTHERS_MS = 250;
/** Pause after a look that failed; it doubles up to the longest. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Has deadlines carried out when they are due: one timer to the soonest that is known, none of the database's time
 * while nothing is due. Never two passes at once in one process; several processes are harmless.
 */
@Injectable()
export class DeadlineSchedule implements OnApplicationBootstrap, OnModuleDestroy {
  readonly #stop = new AbortController();
  #unsubscribe: () => void = () => undefined;
  /** When to look next, by `performance.now()`. */
  #next = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;
  #pause = FIRST_PAUSE_MS;

  constructor(
    private readonly dataSource: DataSource,
    private readonly job: DeadlineJob,
    private readonly deadlines: DeadlineRepository,
    private readonly notifications: Notifications,
    private readonly log: Log,
  ) {}

  /** Begins with what is due already. */
  onApplicationBootstrap(): void {
    this.#unsubscribe = this.notifications.subscribe(DEADLINE_CHANNEL, (payload) =>
      this.#lookIn(announcedDelay(payload)),
    );
    this.#lookIn(0);
  }

  /** Lets a pass under way finish its batch; none begins any more. */
  async onModuleDestroy(): Promise<void> {
    this.#stop.abort();
    this.#unsubscribe();
    clearTimeout(this.#timer);
    await this.#looking;
  }

  /** Looks after that many milliseconds at the latest; a look that is under way is followed by another. */
  #lookIn(ms: number): void {
    const at = performance.now() + Math.min(ms, LOOK_EVERY_MS);
    if (at >= this.#next) return;
    this.#next = at;
    if (!this.#looking) this.#setTimer();
  }

  #setTimer(): void {
    clearTimeout(this.#timer);
    if (this.#stop.signal.aborted) return;
    const wait = Math.max(0, this.#next - performance.now()) + Math.random() * SPREAD_MS;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look().finally(() => {
        this.#looking = undefined;
        this.#setTimer();
      });
    }, Math.ceil(wait));
  }

  async #look(): Promise<void> {
    this.#next = performance.now() + LOOK_EVERY_MS;
    try {
      const now = await currentTime(this.dataSource);
      const counts = await this.job.runOnce(now, this.#stop.signal);
      const inMs = await this.deadlines.nextDue(this.dataSource.manager);
      if (counts.carriedOut + counts.failed > 0) this.log.debug('deadlines carried out', { ...counts });
      if (this.#pause > FIRST_PAUSE_MS) this.log.info('deadlines are carried out again');
      this.#pause = FIRST_PAUSE_MS;
      const others = counts.carriedOut === 0 && counts.nothingDue > 0;
      if (inMs !== null) this.#lookIn(Math.max(inMs, others ? LEAVE_IT_TO_OTHERS_MS : 0));
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    const willPass = isDatabaseUnavailable(error) || error instanceof JournalOverloaded;
    if (!willPass) this.log.error('could not carry out deadlines; trying again', { error });
    else if (this.#pause === FIRST_PAUSE_MS) {
      this.log.warn('cannot carry out deadlines at the moment; trying again', { error });
    }
    this.#lookIn(this.#pause);
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
  }
}

/** Milliseconds until what was announced is due; 0 when that is not known. */
function announcedDelay(payload: string | null): number {
  const ms = Number(payload ?? 0);
  return Number.isFinite(ms) ? ms : 0;
}
