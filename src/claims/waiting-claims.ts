import { EventEmitter } from 'node:events';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { untilWoken } from '../common/waits/until-woken.js';
import type { ClaimablePart, CommitNotice } from '../database/notices/commit-notice.js';
import { CommitNotices, type NoticeSource } from '../database/notices/commit-notices.js';
import type { ClaimOutcome } from '../runs/journal/command.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import {
  readClaimablePart,
  laneOf,
  PLAIN,
  PLAIN_LANE,
  serves,
  type Demands,
  type Lane,
  type Offer,
} from '../runs/queue/lane.js';
import type { ClaimingWorker, SchedulingStrategy } from '../runs/scheduling-strategy.js';
import { SCHEDULER } from './strategies/scheduler.js';
import { WorkerDescriptions } from './worker-descriptions.js';

/** Claims in the first wave when not every worker can execute every run; each further wave is eight times as large. */
const FIRST_WAVE = 8;

/** Most claims that replace one refused claim. */
const MAX_REPLACEMENTS = 64;

/** Longest wait of a claim whose worker is unknown, stale or draining, in milliseconds. */
const MAX_REFUSED_WAIT_MS = 10_000;

/** The worker of a claim. */
export interface WaitingWorker {
  readonly id: string;
  /** As in the claim's last try, also after the wait; null: it was not tried. */
  readonly offer: Offer | null;
}

/** A claim's permission to try again. The claim settles it, so that other claims are woken for the remaining runs. */
export interface WakeUp {
  settle(outcome: ClaimOutcome['kind'] | 'gone', taken: readonly Demands[]): void;
}

interface Waiter {
  readonly worker: WaitingWorker | null;
  /** What its worker offers while it waits; null: unknown. */
  readonly offer: Offer | null;
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
  /** Woken claims that were refused or got nothing: each doubles the number of claims that are woken instead. */
  refused: number;
  /** Whether a run that a claim took, of this lane, may be one of them. */
  readonly mayInclude: (lane: string) => boolean;
  /** The lanes of the runs that may be left; null: unknown. */
  lanes: readonly Lane[] | null;
}

const NO_WAVE: WakeUp = { settle: () => undefined };

/** Records, from `reset` on, that a worker's free capacity has grown. */
class CapacityListener {
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
  readonly #descriptions = new WorkerDescriptions();
  /** Emits `capacity:ID` when a worker's free capacity grows, `status:ID` when it reports or is resumed. */
  readonly #workers = new EventEmitter().setMaxListeners(0);
  #version = 0;
  #unsubscribe: (() => void)[] = [];

  constructor(
    @Inject(CommitNotices) private readonly notices: NoticeSource,
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
    return this.notices.isListening;
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
      return () => void this.#workers.off(event, onStatus);
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
      // A claim that is woken now is committed together with the creation.
      this.journal.onCreate(() => {
        if (this.strategy.isFifo && this.#waiters.size > 0) this.#startWave(1, [PLAIN], () => true);
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

  /** Notices may have been lost: every claim tries once. */
  #wakeAll(): void {
    this.#version += 1;
    this.#descriptions.forgetOffers();
    for (const { wake } of this.#waiters) wake(NO_WAVE);
  }

  #startWave(remaining: number, lanes: readonly Lane[] | null, mayInclude: Wave['mayInclude']): void {
    this.#version += 1;
    const version = this.#version;
    const size = this.strategy.isFifo ? remaining : Math.max(remaining, FIRST_WAVE);
    this.#wake({ version, remaining, unsettled: 0, size, refused: 0, lanes, mayInclude }, size);
  }

  #wake(wave: Wave, count: number): void {
    const woken: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (woken.length >= count) break;
      if (waiter.version < wave.version && mayGetOne(waiter, wave)) woken.push(waiter);
    }
    wave.unsettled += woken.length;
    for (const waiter of woken) {
      let isSettled = false;
      waiter.wake({
        settle: (outcome, taken) => {
          if (isSettled) return;
          isSettled = true;
          this.#settle(wave, waiter, outcome, taken);
        },
      });
    }
  }

  #settle(
    wave: Wave,
    waiter: Waiter,
    outcome: ClaimOutcome['kind'] | 'gone',
    taken: readonly Demands[],
  ): void {
    wave.unsettled -= 1;
    wave.remaining -= taken.map(laneOf).filter(wave.mayInclude).length;
    if (this.strategy.isFifo) {
      if (outcome === 'empty' && isNoneLeft(wave, waiter)) wave.remaining = 0;
      // Many claims in a row that get nothing must not delay the run by one wake-up each.
      if (outcome === 'refused' || outcome === 'empty') wave.refused += 1;
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

/** Whether the waiting claim may get one of the runs, as far as is known. */
function mayGetOne({ offer }: Waiter, { lanes }: Wave): boolean {
  return offer === null || lanes === null || lanes.some((lane) => serves(offer, lane));
}

/** Whether no run of the wave is left for any claim after the waiting claim got none; notes what it shows of the rest. */
function isNoneLeft(wave: Wave, { worker }: Waiter): boolean {
  if (wave.lanes === null) return false;
  const offer = worker?.offer;
  wave.lanes = wave.lanes.filter((lane) => (offer ? !serves(offer, lane) : lane.required.length > 0));
  return wave.lanes.length === 0;
}
