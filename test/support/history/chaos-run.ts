import { CHAOS_SETTINGS, ChaosDeployment } from './chaos-deployment.js';
import { injectFaults } from './chaos-faults.js';
import { sumUp, type ChaosFigures } from './chaos-figures.js';
import { checkHistory } from './check-history.js';
import { FeedTail } from './feed-tail.js';
import { countLive, readFinalState } from './final-state.js';
import type { Violation } from './history.js';
import { LoadClient, TOPICS } from './load-client.js';
import { evenQuota, waitFor } from './load-pace.js';
import { RecordedService } from './recorded-service.js';
import { drawOptions } from './run-options.js';
import { SeededRandom } from './seeded-random.js';
import { tellStory } from './tell-story.js';
import { WorkerCrew } from './worker-crew.js';

/** How much of everything. */
export interface ChaosOptions {
  /** Everything random comes from it; what the clock decides does not. */
  readonly seed: number;
  readonly runs: number;
  /** How long faults are injected; the runs are created within this time. */
  readonly seconds: number;
}

/** What was found. */
export interface ChaosReport {
  readonly violations: readonly Violation[];
  /** Everything about the runs of the first of them. */
  readonly stories: readonly string[];
  /** Of the two servers, which were told to end when all was done. */
  readonly exitCodes: readonly (number | null | undefined)[];
  readonly figures: ChaosFigures & {
    readonly mishaps: Readonly<Record<string, number>>;
    /** How many requests had which status; 0: no whole answer. */
    readonly statuses: Readonly<Record<string, number>>;
    /** The end of what servers said that a fault hit while they started. */
    readonly failedStarts: readonly string[];
  };
}

/** Violations that are told at length. */
const STORIES = 3;
/** Characters shown of a failed start. */
const START_FAILURE_SHOWN = 300;
const CLIENTS = 10;
const WORKERS = 12;
/** Longest wait for the last run to be created, and then to end. */
const PATIENCE_MS = 120_000;

/** A run under random faults: load and faults for a while, then everything is healed, ends, and is checked. */
export async function runChaos({ seed, runs, seconds }: ChaosOptions): Promise<ChaosReport> {
  const deployment = await ChaosDeployment.start(seed);
  try {
    const service = new RecordedService(deployment.wires);
    const began = performance.now();
    const goesOn = (): boolean => performance.now() - began < seconds * 1000;
    const quota = evenQuota(runs, () => (performance.now() - began) / (seconds * 1000));
    const tails = TOPICS.map((topic) => new FeedTail(service, topic));
    const crew = new WorkerCrew(service, seed, WORKERS);
    const clients = Array.from({ length: CLIENTS }, (_, i) => {
      const name = `client-${i}`;
      return new LoadClient(name, service, SeededRandom.for(seed, name), quota, drawOptions);
    });
    const [injected] = await Promise.all([
      injectFaults(deployment, service, SeededRandom.for(seed, 'faults'), goesOn),
      crew.suffer(SeededRandom.for(seed, 'mishaps'), goesOn),
    ]);
    await deployment.heal();
    crew.heal();
    await waitFor(() => quota.taken >= runs, PATIENCE_MS);
    await Promise.all(clients.map((client) => client.stop()));
    await waitFor(async () => (await countLive(service)) === 0, PATIENCE_MS);
    await crew.stop();
    await Promise.all(tails.map((tail) => tail.stop()));
    const final = await readFinalState(service, tails);
    const { workerTimeout, maxReclaims } = CHAOS_SETTINGS;
    const rules = { workerTimeoutMs: workerTimeout * 1000, maxReclaims };
    const figures = {
      ...sumUp(service.history, final, injected),
      mishaps: crew.mishaps,
      statuses: statusesOf(deployment),
      failedStarts: deployment.failedStarts.map((text) => text.slice(-START_FAILURE_SHOWN)),
    };
    const violations = checkHistory(service.history, final, rules);
    const stories = violations
      .slice(0, STORIES)
      .flatMap((violation) => tellStory(violation, service.history, final) ?? []);
    return { violations, stories, figures, exitCodes: await deployment.close() };
  } finally {
    await deployment.close();
  }
}

function statusesOf({ wires }: ChaosDeployment): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const [status, count] of wires.flatMap(({ statuses }) => [...statuses])) {
    sum[status] = (sum[status] ?? 0) + count;
  }
  return sum;
}
