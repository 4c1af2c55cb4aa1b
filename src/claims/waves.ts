import type { ClaimOutcome } from '../runs/journal/command.js';
import { laneOf, serves, type Demands, type Lane, type Offer } from '../runs/queue/lane.js';

/** Claims in the first wave when not every worker can execute every run; each further wave is eight times as large. */
const FIRST_WAVE = 8;

/** Most claims that replace one refused claim. */
const MAX_REPLACEMENTS = 64;

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

export interface Waiter {
  readonly worker: WaitingWorker | null;
  /** What its worker offers while it waits; null: unknown. */
  readonly offer: Offer | null;
  /** Version of the queue before the claim's last try. */
  readonly version: number;
  readonly wake: (wakeUp: WakeUp) => void;
}

/** Runs that became claimable together, and the claims that were woken for them. */
export interface Wave {
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

/** Wakes waiting claims for runs, and others in the place of those that do not take them. */
export class Waves {
  /** @param waiters in the order in which they began to wait; who is woken leaves it */
  constructor(
    private readonly waiters: ReadonlySet<Waiter>,
    private readonly isFifo: boolean,
  ) {}

  /** Wakes claims for runs that became claimable together. */
  start({
    version,
    remaining,
    lanes,
    mayInclude,
  }: Pick<Wave, 'version' | 'remaining' | 'lanes' | 'mayInclude'>): void {
    const size = this.isFifo ? remaining : Math.max(remaining, FIRST_WAVE);
    this.#wake({ version, remaining, unsettled: 0, size, refused: 0, lanes, mayInclude }, size);
  }

  #wake(wave: Wave, count: number): void {
    const woken: Waiter[] = [];
    for (const waiter of this.waiters) {
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
    if (this.isFifo) {
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
