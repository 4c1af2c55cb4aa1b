import { EventEmitter } from 'node:events';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { untilWoken } from '../../common/notifications/until-woken.js';
import { Notifications } from '../../database/notifications.js';
import type { ClaimOutcome } from '../../runs/journal/claim.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import {
  parseQueueNotification,
  QUEUE_CHANNEL,
  FREE_WORKERS_CHANNEL,
} from '../../runs/queue/queue-notifications.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { SCHEDULER } from '../strategies/scheduler.js';

/** Claims in the first wave when not every worker can execute every run; each further wave is eight times as large. */
const FIRST_WAVE = 8;

/** Most claims that replace one refused claim. */
const MAX_REPLACEMENTS = 64;

/** Longest wait of a claim whose worker is unknown, stale or draining, in milliseconds. */
const MAX_REFUSED_WAIT_MS = 10_000;

/** A claim's permission to try again. The claim settles it, so that other claims are woken for the remaining runs. */
export interface WakeUp {
  settle(outcome: ClaimOutcome['kind'] | 'gone', runs: number): void;
}

interface Waiter {
  /** Version of the queue before the claim's last try. */
  readonly version: number;
  readonly wake: (wakeUp: WakeUp) => void;
}

/** Runs that became claimable together, and the claims that were woken for them. */
interface Wave {
  readonly version: number;
  /** Runs that no claim is known to have taken. */
  remaining: number;
  /** Woken claims that have not settled. */
  unsettled: number;
  size: number;
  /** Woken claims that were refused: each doubles the number of claims that are woken instead. */
  refused: number;
  /** Whether some of the runs may avoid a worker: that one claim gets none does not mean that none is left. */
  readonly mayAvoid: boolean;
}

const NO_WAVE: WakeUp = { settle: () => undefined };

/** Records, from `reset` on, that a worker's free capacity has grown. */
export class CapacityListener {
  hasGrown = false;
  /** Called when the capacity grows. */
  wake: (() => void) | undefined;

  constructor(
    private readonly workers: EventEmitter,
    private readonly event: string,
  ) {
    workers.on(event, this.#onGrowth);
  }

  /** Call it before each try. */
  reset(): void {
    this.hasGrown = false;
  }

  close(): void {
    this.workers.off(this.event, this.#onGrowth);
  }

  readonly #onGrowth = (): void => {
    this.hasGrown = true;
    this.wake?.();
  };
}

/**
 * Claims that wait for work. A run that becomes claimable in any process wakes one claim; with a strategy that is not
 * FIFO, growing waves of claims until one takes it.
 */
@Injectable()
export class WaitingClaims implements OnModuleDestroy {
  readonly #waiters = new Set<Waiter>();
  /** Emits `capacity:ID` when a worker's free capacity grows, `status:ID` when it reports or is resumed. */
  readonly #workers = new EventEmitter().setMaxListeners(0);
  #version = 0;
  #unsubscribe: (() => void)[] = [];

  constructor(
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
    @Inject(RunJournal) private readonly journal: Pick<RunJournal, 'onCreate' | 'announceFreeWorkers'>,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {
    if (!strategy.isFifo) journal.announceFreeWorkers();
  }

  /** Grows when runs become claimable. Read it before a try, and pass it to `wait` afterwards. */
  get version(): number {
    this.#listen();
    return this.#version;
  }

  get isListening(): boolean {
    return this.notifications.isListening(QUEUE_CHANNEL);
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Listens for free capacity of a worker; null if the strategy ignores capacity. */
  listenForCapacity(workerId: string): CapacityListener | null {
    if (this.strategy.isFifo) return null;
    this.#listen();
    return new CapacityListener(this.#workers, `capacity:${workerId}`);
  }

  /**
   * Waits until a run has become claimable or the worker's capacity has grown; null after a timeout or an abort.
   * @param since version from before the claim's last try
   */
  async wait(
    since: number,
    capacity: CapacityListener | null,
    forMs: number,
    signal: AbortSignal,
  ): Promise<WakeUp | null> {
    if (signal.aborted) return null;
    if (this.#version > since || capacity?.hasGrown) return NO_WAVE;
    return untilWoken<WakeUp>({ signal, forMs }, (wake) => {
      const waiter: Waiter = { version: since, wake };
      this.#waiters.add(waiter);
      if (capacity) capacity.wake = () => wake(NO_WAVE);
      return () => {
        this.#waiters.delete(waiter);
        if (capacity) capacity.wake = undefined;
      };
    });
  }

  /** Waits until a refused worker reports or is resumed in this process, at most ten seconds; false: the time is over. */
  async waitForWorker(workerId: string, forMs: number, signal: AbortSignal): Promise<boolean> {
    const event = `status:${workerId}`;
    const ends = { signal, forMs: Math.min(forMs, MAX_REFUSED_WAIT_MS) };
    const isWoken = await untilWoken<true>(ends, (wake) => {
      const onStatus = (): void => wake(true);
      this.#workers.on(event, onStatus);
      return () => void this.#workers.off(event, onStatus);
    });
    return isWoken !== null;
  }

  wakeRefused(workerId: string): void {
    this.#workers.emit(`status:${workerId}`);
  }

  onModuleDestroy(): void {
    for (const end of this.#unsubscribe.splice(0)) end();
  }

  #listen(): void {
    if (this.#unsubscribe.length > 0) return;
    this.#unsubscribe = [
      this.notifications.subscribe(QUEUE_CHANNEL, (payload) => this.#onQueue(payload)),
      this.notifications.subscribe(FREE_WORKERS_CHANNEL, (workerId) => {
        if (workerId !== null) this.#workers.emit(`capacity:${workerId}`);
      }),
      // A claim that is woken now is committed together with the creation.
      this.journal.onCreate(() => {
        if (this.strategy.isFifo && this.#waiters.size > 0) this.#startWave(1, 1);
      }),
    ];
  }

  #onQueue(payload: string | null): void {
    // Notifications may have been lost: every claim tries once.
    if (payload === null) return this.#startWave(this.#waiters.size, this.#waiters.size);
    const { count: runs, mayAvoid } = parseQueueNotification(payload);
    this.#startWave(runs, this.strategy.isFifo ? runs : Math.max(runs, FIRST_WAVE), mayAvoid);
  }

  #startWave(remaining: number, size: number, mayAvoid = false): void {
    this.#version += 1;
    this.#wake({ version: this.#version, remaining, unsettled: 0, size, refused: 0, mayAvoid }, size);
  }

  #wake(wave: Wave, count: number): void {
    const woken: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (woken.length >= count) break;
      if (waiter.version < wave.version) woken.push(waiter);
    }
    wave.unsettled += woken.length;
    for (const waiter of woken) {
      let isSettled = false;
      waiter.wake({
        settle: (outcome, runs) => {
          if (isSettled) return;
          isSettled = true;
          this.#settle(wave, outcome, runs);
        },
      });
    }
  }

  #settle(wave: Wave, outcome: ClaimOutcome['kind'] | 'gone', runs: number): void {
    wave.unsettled -= 1;
    wave.remaining -= runs;
    if (this.strategy.isFifo) {
      // The queue is empty for every worker if it is for one.
      if (outcome === 'nothing' || (outcome === 'withheld' && !wave.mayAvoid)) wave.remaining = 0;
      // Many refused claims in a row must not delay the run by one wake-up each.
      if (outcome === 'refused') wave.refused += 1;
      const missing = wave.remaining - wave.unsettled;
      if (missing > 0) {
        this.#wake(wave, Math.max(missing, Math.min(2 ** wave.refused / 2, MAX_REPLACEMENTS)));
      }
    } else if (wave.remaining > 0 && wave.unsettled === 0) {
      wave.size *= 8;
      this.#wake(wave, wave.size);
    }
  }
}
