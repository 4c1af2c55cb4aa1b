import { KitService, type ScenarioResult } from './kit-service.js';
import type { Scenario } from './scenario.js';

/** Worker timeout of the service, unless a scenario has another one, in seconds: short, so that runs are soon reclaimed. */
const WORKER_TIMEOUT_S = 3;

/** Services for testing workers, one for each worker timeout that scenarios ask for. */
export class ConformanceKit {
  private readonly services = new Map<number, Promise<KitService>>();

  private constructor(private readonly env: NodeJS.ProcessEnv) {}

  /**
   * Starts the service of most scenarios.
   * @param env base environment; settings of services and workers are removed
   * @throws ChildEnded when the service does not start
   */
  static async start(env: NodeJS.ProcessEnv): Promise<ConformanceKit> {
    const kit = new ConformanceKit(env);
    await kit.serviceWith(WORKER_TIMEOUT_S);
    return kit;
  }

  /** Runs one scenario with workers that the command starts. A violated rule is a result; other errors are thrown. */
  async run(scenario: Scenario, command: string): Promise<ScenarioResult> {
    const service = await this.serviceWith(scenario.workerTimeoutS ?? WORKER_TIMEOUT_S);
    return service.run(scenario, command);
  }

  /** Stops everything, including the workers of a running scenario, and removes the folders. */
  async close(): Promise<void> {
    for (const started of await Promise.allSettled(this.services.values())) {
      if (started.status === 'fulfilled') await started.value.close();
    }
  }

  private serviceWith(workerTimeoutS: number): Promise<KitService> {
    const service = this.services.get(workerTimeoutS) ?? KitService.start(this.env, workerTimeoutS);
    this.services.set(workerTimeoutS, service);
    return service;
  }
}
