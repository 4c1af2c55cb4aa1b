import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Notifications } from '../../database/notifications.js';
import { untilWoken } from '../../common/notifications/until-woken.js';
import { readQueueNews } from '../../runs/queue/queue-notifications.js';
import { QUEUE_CHANNEL, ROOM_CHANNEL } from '../../runs/queue/queue.repository.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import type { ClaimOutcome } from '../../runs/journal/claim.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import { RoomNotifications, type RoomWatch } from './room-notifications.js';

/** How many claims are woken first for news that not every worker can make use of; then eight times as many, and so on. */
const FIRST_WAVE = 8;

/** How many claims are woken at once, at most, in the place of one that may have no work. */
const MOST_INSTEAD = 64;

/** A claim's leave to try again. What became of it has to be told, so that the next one gets its chance. */
export interface Turn {
  settle(outcome: ClaimOutcome['kind'] | 'gone', runs: number): void;
}

interface Waiter {
  /** What was heard before its last try. */
  readonly version: number;
  readonly wake: (turn: Turn) => void;
}

/** Runs that became claimable together, and the claims that were woken for them. */
interface Wave {
  readonly version: number;
  /** Runs that nobody has taken yet, as far as is known. */
  wanted: number;
  /** Claims that were woken and have not told what became of them. */
  open: number;
  size: number;
  /** Claims that were woken and may have no work: each time twice as many are woken in their place. */
  refused: number;
}

const FREE_TURN: Turn = { settle: () => undefined };

/**
 * Claims that wait for work. They cost nothing while nothing happens. A run that becomes claimable, in any process,
 * wakes one of them; where the strategy gives a run to some workers only, those who cannot take it pass the word on.
 */
@Injectable()
export class WaitingClaims implements OnModuleDestroy {
  readonly #waiters = new Set<Waiter>();
  readonly #room = new RoomNotifications();
  #version = 0;
  #unsubscribe: (() => void)[] = [];

  constructor(
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'hears'>,
    @Inject(RunJournal) private readonly journal: Pick<RunJournal, 'onCreate' | 'announceRoom'>,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {
    if (!strategy.isFifo) journal.announceRoom();
  }

  /** Changes with all news. Read it before a try, and give it to `turn` afterwards. */
  get version(): number {
    this.#listen();
    return this.#version;
  }

  /** Whether news of the queue are heard at the moment, as far as is known. */
  get isListening(): boolean {
    return this.notifications.hears(QUEUE_CHANNEL);
  }

  /** Claims that wait. */
  get size(): number {
    return this.#waiters.size;
  }

  /** Watches for room of a worker; null for a strategy to which it is nothing. */
  watchRoom(workerId: string): RoomWatch | null {
    if (this.strategy.isFifo) return null;
    this.#listen();
    return this.#room.watch(workerId);
  }

  /**
   * Waits until there may be work again: because a run has become claimable, or because the worker has got room.
   * @param since version from before the claim's last try
   * @param forMs longest wait in milliseconds
   * @returns null when the time is over or the signal aborts
   */
  async turn(
    since: number,
    room: RoomWatch | null,
    forMs: number,
    signal: AbortSignal,
  ): Promise<Turn | null> {
    if (signal.aborted) return null;
    if (!room) return this.#runTurn(since, forMs, signal);
    const done = new AbortController();
    const giveUp = (): void => done.abort();
    signal.addEventListener('abort', giveUp);
    try {
      const runTurn = this.#runTurn(since, forMs, done.signal);
      const roomTurn = room.news(done.signal).then((isNews) => (isNews ? FREE_TURN : null));
      const first = await Promise.race([runTurn, roomTurn]);
      // Where both came at once, the run's turn goes on to somebody else.
      void runTurn.then((turn) => turn !== first && turn?.settle('gone', 0));
      return first;
    } finally {
      done.abort();
      signal.removeEventListener('abort', giveUp);
    }
  }

  #runTurn(since: number, forMs: number, signal: AbortSignal): Promise<Turn | null> {
    if (this.#version > since) return Promise.resolve(FREE_TURN);
    return untilWoken<Turn>({ signal, forMs }, (wake) => {
      const waiter: Waiter = { version: since, wake };
      this.#waiters.add(waiter);
      return () => void this.#waiters.delete(waiter);
    });
  }

  onModuleDestroy(): void {
    for (const end of this.#unsubscribe.splice(0)) end();
  }

  /** Begins to listen with the first claim that may wait. */
  #listen(): void {
    if (this.#unsubscribe.length > 0) return;
    this.#unsubscribe = [
      this.notifications.subscribe(QUEUE_CHANNEL, (payload) => this.#hear(payload)),
      this.notifications.subscribe(ROOM_CHANNEL, (workerId) => {
        if (workerId !== null) this.#room.tell(workerId);
      }),
      this.journal.onCreate(() => this.#hearCreation()),
    ];
  }

  #hear(payload: string | null): void {
    // What was announced while nobody listened is not known: everybody looks once.
    const runs = payload === null ? this.#waiters.size : readQueueNews(payload).count;
    this.#begin(runs, payload === null ? this.#waiters.size : this.#firstWave(runs));
  }

  /** A creation of this process: the claim that is woken now is committed together with it. */
  #hearCreation(): void {
    if (this.strategy.isFifo && this.#waiters.size > 0) this.#begin(1, 1);
  }

  #firstWave(runs: number): number {
    return this.strategy.isFifo ? runs : Math.max(runs, FIRST_WAVE);
  }

  #begin(wanted: number, size: number): void {
    this.#version += 1;
    this.#wake({ version: this.#version, wanted, open: 0, size, refused: 0 }, size);
  }

  #wake(wave: Wave, count: number): void {
    const woken: Waiter[] = [];
    for (const waiter of this.#waiters) {
      if (woken.length >= count) break;
      if (waiter.version < wave.version) woken.push(waiter);
    }
    wave.open += woken.length;
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
    wave.open -= 1;
    wave.wanted -= runs;
    if (this.strategy.isFifo) {
      // Nothing for one worker is nothing for any.
      if (outcome === 'nothing') wave.wanted = 0;
      // Many in a row that may have no work must not make the run wait for them one by one.
      if (outcome === 'refused') wave.refused += 1;
      const missing = wave.wanted - wave.open;
      if (missing > 0) this.#wake(wave, Math.max(missing, Math.min(2 ** wave.refused / 2, MOST_INSTEAD)));
    } else if (wave.wanted > 0 && wave.open === 0) {
      wave.size *= 8;
      this.#wake(wave, wave.size);
    }
  }
}
