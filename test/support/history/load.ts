import { setTimeout as sleep } from 'node:timers/promises';
import { FeedTail } from './feed-tail.js';
import { countLive, readFinalState } from './final-state.js';
import type { Call, FinalState } from './history.js';
import { LoadClient, TOPICS } from './load-client.js';
import type { RecordedService } from './recorded-service.js';
import type { DrawnFields } from './drawn-runs.js';
import { SeededRandom } from './seeded-random.js';
import type { Wire } from './wire.js';
import { WorkerCrew } from './worker-crew.js';

/** Longest wait for the last run to be created, and then to end: what has not ended is then found by the checker. */
const PATIENCE_MS = 120_000;

/** How much of everything. */
export interface LoadOptions {
  /** Everything random comes from it; what the clock decides does not. */
  readonly seed: number;
  /** Created one after another within the seconds. */
  readonly runs: number;
  readonly seconds: number;
  readonly clients: number;
  readonly workers: number;
  /** The options of a run. @param known ids of runs that it may wait for */
  readonly draw?: (random: SeededRandom, known: readonly string[]) => DrawnFields;
}

/** Clients, workers and readers of feeds that use a service from now on. */
export class Load {
  readonly tails: readonly FeedTail[];
  readonly crew: WorkerCrew;
  readonly #clients: readonly LoadClient[];
  readonly #began = performance.now();
  #taken = 0;

  constructor(
    private readonly service: RecordedService,
    private readonly options: LoadOptions,
  ) {
    const { seed, clients, workers, draw } = options;
    this.tails = this.follow();
    this.crew = new WorkerCrew(service, seed, workers);
    const quota = { take: () => this.#take(), putBack: () => void (this.#taken -= 1) };
    this.#clients = Array.from({ length: clients }, (_, i) => {
      const name = `client-${i}`;
      return new LoadClient(name, service, SeededRandom.for(seed, name), quota, draw);
    });
  }

  /** How much of the time is over; 1 is all of it. */
  get share(): number {
    return (performance.now() - this.#began) / (this.options.seconds * 1000);
  }

  /** More readers of the feeds, from their start. */
  follow(): FeedTail[] {
    return TOPICS.map((topic) => new FeedTail(this.service, topic));
  }

  /** Waits until all runs are created and have ended, ends everybody, and reads what is there. */
  async end(tails = this.tails): Promise<FinalState> {
    this.crew.heal();
    await waitFor(() => this.#taken >= this.options.runs);
    await Promise.all(this.#clients.map((client) => client.stop()));
    await waitFor(async () => (await countLive(this.service)) === 0);
    await this.crew.stop();
    await Promise.all(tails.map((tail) => tail.stop()));
    return readFinalState(this.service, tails);
  }

  #take(): boolean {
    if (this.#taken >= this.options.runs * Math.min(1, this.share)) return false;
    this.#taken += 1;
    return true;
  }
}

/** What a load came to, and what was answered. */
export interface LoadFigures {
  readonly runs: number;
  readonly requests: number;
  readonly refused: number;
  /** Refusals of what is never refused: creations, claims, heartbeats, retries, patches, reads. */
  readonly refusedWrongly: number;
  readonly maybe: number;
  readonly reclaims: number;
  readonly mishaps: WorkerCrew['mishaps'];
  /** How many requests had which status; 0: no whole answer. */
  readonly statuses: Readonly<Record<string, number>>;
}

/** Sums a load up. */
export function sumUp(
  history: readonly Call[],
  { runs }: FinalState,
  { crew: { mishaps } }: Load,
  wires: readonly Wire[],
): LoadFigures {
  const count = (kind: Call['outcome']['kind']): number =>
    history.filter(({ outcome }) => outcome.kind === kind).length;
  const statuses: Record<string, number> = {};
  for (const [status, times] of wires.flatMap((wire) => [...wire.statuses])) {
    statuses[status] = (statuses[status] ?? 0) + times;
  }
  return {
    runs: runs.length,
    requests: history.length,
    refused: count('refused'),
    refusedWrongly: history.filter(
      ({ kind, outcome }) => outcome.kind === 'refused' && kind !== 'event' && kind !== 'cancel',
    ).length,
    maybe: count('maybe'),
    reclaims: runs.flatMap(({ timeline }) => timeline.filter(({ type }) => type === 'RECLAIMED')).length,
    mishaps,
    statuses,
  };
}

async function waitFor(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (performance.now() < deadline && !(await condition())) await sleep(200);
}
