import { EventEmitter } from 'node:events';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { untilWoken } from '../common/waits/until-woken.js';
import type { ClaimablePart, CommitNotice } from '../database/notices/commit-notice.js';
import { CommitNotices, type NoticeSource } from '../database/notices/commit-notices.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import { readClaimablePart, PLAIN, PLAIN_LANE, type Lane } from '../runs/queue/lane.js';
import { Pauses } from '../runs/queue/pauses.js';
import type { ClaimingWorker, SchedulingStrategy } from '../runs/scheduling-strategy.js';
import { SCHEDULER } from './strategies/scheduler.js';
import { Waves, type WaitingWorker, type Waiter, type WakeUp, type Wave } from './waves.js';
import { WorkerDescriptions } from './worker-descriptions.js';
import { monotonicMs } from '../common/monotonic-ms.js';

/** Time for which the queue is taken to be empty without a look, in milliseconds: so long a notice that was lost may delay its run. */
const EMPTY_FOR_MS = 10_000;

/** Longest wait of a claim whose worker is unknown, stale or draining, in milliseconds. */
const MAX_REFUSED_WAIT_MS = 10_000;

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
 * Claims that wait for work, woken by runs.
 *
 * It remembers the waiting claims, a version that grows when runs become claimable in any process, the waves of woken claims that have
 * not settled, and when the queue was last seen empty. A run wakes one claim whose worker may get it, as far as is known; if that claim
 * does not take it, another one. With a strategy that is not FIFO, nobody knows whom a run fits: growing waves are woken until it is taken.
 *
 * What makes it wrong: a run that is announced between a try and its wait (the version has grown, so the claim tries again at once);
 * lost notices (every claim tries once when they arrive again, and the queue counts as empty for ten seconds at most); a worker with
 * new tags in another process (a notice says so); a woken claim whose client is gone (it settles as that, and another is woken).
 * Nothing is lost then: a run stays in the queue until a claim's transaction takes it, and whoever is woken in vain finds nothing.
 *
 * A claim that waits costs a timer and no statement; one that begins on a queue that is known to be empty looks for its key only.
 * Tests: `waiting-claims.spec.ts`, `test/integration/queue/{claim-idle,idle-claims,lane-waiting}.spec.ts`.
 */
@Injectable()
export class WaitingClaims implements OnModuleDestroy {
  readonly #waiters = new Set<Waiter>();
  readonly #waves: Waves;
  readonly #descriptions = new WorkerDescriptions();
  /** Emits `capacity:ID` when a worker's free capacity grows, `status:ID` when it reports or is resumed. */
  readonly #workers = new EventEmitter().setMaxListeners(0);
  #version = 0;
  #refused = 0;
  /** When a claim last found no run in the queue, and the version before its try. */
  #empty = { version: -1, at: 0 };
  #unsubscribe: (() => void)[] = [];

  constructor(
    @Inject(CommitNotices) private readonly notices: NoticeSource,
    @Inject(RunJournal) private readonly journal: Pick<RunJournal, 'onCreate' | 'announceFreeWorkers'>,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
    @Inject(Pauses) private readonly pauses: Pick<Pauses, 'onRelease' | 'holdAll'>,
  ) {
    this.#waves = new Waves(this.#waiters, strategy.isFifo === true);
    if (!strategy.isFifo) journal.announceFreeWorkers();
  }

  /** Grows when runs become claimable. Read it before a try, and pass it to `wait` afterwards. */
  get version(): number {
    this.#listen();
    return this.#version;
  }

  /** Claims that wait, those of refused workers included. */
  get size(): number {
    return this.#waiters.size + this.#refused;
  }

  /** A claim found no run in the queue. @param version from before its try */
  noteEmpty(version: number): void {
    this.#empty = { version, at: monotonicMs() };
  }

  /** Whether the queue is known to have no run: a claim found none a short time ago, and none has become claimable since. */
  get isQueueEmpty(): boolean {
    const { version, at } = this.#empty;
    return version === this.version && this.notices.isListening && monotonicMs() - at < EMPTY_FOR_MS;
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
    worker: WaitingWorker | null = null,
  ): Promise<WakeUp | null> {
    if (signal.aborted) return null;
    if (this.#version > since || capacity?.hasGrown) return NO_WAVE;
    return untilWoken<WakeUp>({ signal, forMs }, (wake) => {
      const offer = worker && (worker.offer ?? this.#descriptions.offerOf(worker.id));
      const waiter: Waiter = { worker, offer, version: since, wake };
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
      this.#refused += 1;
      return () => {
        this.#workers.off(event, onStatus);
        this.#refused -= 1;
      };
    });
    return isWoken !== null;
  }

  /**
   * Notes a heartbeat. The claims of a worker try again, in this process, if its tags or capabilities differ from those in
   * the heartbeat before or, with a strategy that considers them, its resources have grown.
   * @returns what the other processes are to be told; null: nothing
   */
  noteHeartbeat(worker: ClaimingWorker): CommitNotice | null {
    // A notice that another process has heard of other tags must not be missed.
    this.#listen();
    const { id } = worker;
    const difference = this.#descriptions.note(worker);
    if (difference === 'changed') {
      this.#onChangedWorker(id);
      return { changedWorkers: [id] };
    }
    if (difference === null || this.strategy.isFifo) return null;
    this.#onGrownWorker(id);
    return { grownWorkers: [id] };
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
      this.notices.subscribe((notice) => {
        if (notice === null) return this.#wakeAll();
        if (notice.queue) this.#onClaimable(notice.queue);
        for (const workerId of notice.changedWorkers ?? []) this.#onChangedWorker(workerId);
        for (const workerId of notice.freedWorkers ?? []) this.#onGrownWorker(workerId);
        for (const workerId of notice.grownWorkers ?? []) this.#onGrownWorker(workerId);
      }),
      this.pauses.onRelease(() => this.#wakeAll()),
      // A claim that is woken now is committed together with the creation.
      this.journal.onCreate(() => {
        if (this.strategy.isFifo && this.#waiters.size > 0) this.#startWave(1, [PLAIN], () => true);
        // A claim that comes before the notice must not take the queue to be empty.
        else this.#version += 1;
      }),
    ];
  }

  #onClaimable(part: ClaimablePart): void {
    const { plain, others, lanes } = readClaimablePart(part);
    if (plain > 0) this.#startWave(plain, [PLAIN], (lane) => lane === PLAIN_LANE);
    if (others === 0) return;
    const ids = lanes && new Set(lanes.map(({ id }) => id));
    this.#startWave(others, lanes, (lane) => (ids === null ? lane !== PLAIN_LANE : ids.has(lane)));
  }

  /** Its waiting claims try again, and every claim that tried with what the worker had before. */
  #onChangedWorker(workerId: string): void {
    this.#version += 1;
    this.#descriptions.forgetOffer(workerId);
    for (const { worker, wake } of this.#waiters) if (worker?.id === workerId) wake(NO_WAVE);
  }

  #onGrownWorker(workerId: string): void {
    this.#workers.emit(`capacity:${workerId}`);
  }

  /** Notices may have been lost, or runs that pauses held back are free: every claim tries once. */
  #wakeAll(): void {
    this.#version += 1;
    this.#descriptions.forgetOffers();
    for (const { wake } of this.#waiters) wake(NO_WAVE);
  }

  #startWave(remaining: number, lanes: readonly Lane[] | null, mayInclude: Wave['mayInclude']): void {
    this.#version += 1;
    if (!this.pauses.holdAll) this.#waves.start({ version: this.#version, remaining, lanes, mayInclude });
  }
}
