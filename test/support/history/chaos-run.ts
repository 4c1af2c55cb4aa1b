import { ChaosDeployment } from './chaos-deployment.js';
import { injectFaults } from './chaos-faults.js';
import { brokenPromises } from './broken-promises.js';
import { Load, sumUp, type LoadFigures, type LoadOptions } from './load.js';
import { RecordedService } from './recorded-service.js';
import { drawOptions } from './drawn-runs.js';
import { SeededRandom } from './seeded-random.js';

/** What was found. */
export interface ChaosReport {
  readonly broken: readonly string[];
  /** Of the two servers, which were told to end when all was done. */
  readonly exitCodes: readonly (number | null | undefined)[];
  readonly figures: LoadFigures;
  /** The end of what servers said that a fault hit while they started. */
  readonly failedStarts: readonly string[];
}

/** Characters shown of a failed start. */
const START_FAILURE_SHOWN = 300;

/** A run under random faults: load and faults for a while, then everything is healed, ends, and is checked. */
export async function runChaos(
  options: Pick<LoadOptions, 'seed' | 'runs' | 'seconds'>,
): Promise<ChaosReport> {
  const { seed } = options;
  const deployment = await ChaosDeployment.start(seed);
  try {
    const service = new RecordedService(deployment.wires);
    const load = new Load(service, { ...options, clients: 10, workers: 12, draw: drawOptions });
    const goesOn = (): boolean => load.share < 1;
    await Promise.all([
      injectFaults(deployment, service, SeededRandom.for(seed, 'faults'), goesOn),
      load.crew.suffer(SeededRandom.for(seed, 'mishaps'), goesOn),
    ]);
    await deployment.heal();
    const final = await load.end();
    return {
      broken: brokenPromises(service.history, final),
      figures: sumUp(service.history, final, load, deployment.wires),
      failedStarts: deployment.failedStarts.map((text) => text.slice(-START_FAILURE_SHOWN)),
      exitCodes: await deployment.close(),
    };
  } finally {
    await deployment.close();
  }
}
