import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChildProgram } from '@longshore/common/child-program';
import { serviceProgram } from '@longshore/common/service-program';
import { FaultProxy } from './fault-proxy.js';
import { checkInvariants } from './invariants.js';
import { KitRuns } from './kit-runs.js';
import { ProgramTraces, WORKER_KEY_START } from './program-traces.js';
import { ScenarioContext, type ScenarioParts } from './scenario-context.js';
import { RuleViolation, type Scenario } from './scenario.js';
import { slowPullSeconds } from './scenarios/liveness.js';

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

const LISTENING = /listening on (https?:\/\/[^\s"\\]+)/;
const STOP_MS = 30_000;

const REAPER_INTERVAL_S = 0.25;
const LIMIT_MS = 20_000;

export interface ScenarioResult {
  readonly name: string;
  readonly promise: string;
  readonly seconds: number;
  /** The violated rule; null: passed. */
  readonly problem: string | null;
  /** The end of the worker's output after a failure. */
  readonly printed: string;
}

/** A service and a fault proxy for testing workers. */
class KitService {
  private context: ScenarioContext | null = null;

  private constructor(
    private readonly service: ChildProgram,
    private readonly parts: Omit<ScenarioParts, 'command'>,
  ) {}

  /**
   * Starts the service on the embedded PostgreSQL in a new folder, and the proxy.
   * @param env base environment; settings of services and workers are removed
   * @throws ChildEnded when the service does not start
   */
  static async start(env: NodeJS.ProcessEnv, workerTimeoutS: number): Promise<KitService> {
    const base = await mkdtemp(join(tmpdir(), 'longshore-kit-'));
    const plain = withoutSettings(env);
    const [adminKey, workerKey] = [`kit-admin-${randomUUID()}`, `${WORKER_KEY_START}${randomUUID()}`];
    const service = new ChildProgram({
      name: 'service',
      script: serviceProgram(),
      logFile: join(base, 'service.log'),
      env: {
        ...plain,
        SERVICE_PORT: '0',
        SERVICE_DATA_DIR: join(base, 'data'),
        SERVICE_API_KEYS: `admin:${adminKey},worker:${workerKey}`,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
        SERVICE_WORKER_TIMEOUT: String(workerTimeoutS),
        SERVICE_REAPER_INTERVAL: String(REAPER_INTERVAL_S),
      },
    });
    try {
      const [, serviceUrl = ''] = await service.untilLine(LISTENING);
      const workerTmp = join(base, 'tmp');
      await mkdir(workerTmp);
      return new KitService(service, {
        base,
        env: { ...plain, TMPDIR: workerTmp },
        serviceUrl,
        adminKey,
        workerKey,
        proxy: await FaultProxy.start(Number(new URL(serviceUrl).port)),
        runs: new KitRuns(serviceUrl, adminKey, LIMIT_MS),
        traces: await ProgramTraces.make(base, slowPullSeconds(workerTimeoutS)),
        workerTimeoutS,
        limitMs: LIMIT_MS,
      });
    } catch (error) {
      await service.stop(STOP_MS);
      await rm(base, { recursive: true, force: true });
      throw error;
    }
  }

  /** Runs one scenario with workers that the command starts. A violated rule is a result; other errors are thrown. */
  async run({ name, promise, run }: Scenario, command: string): Promise<ScenarioResult> {
    const context = new ScenarioContext({ ...this.parts, command }, name);
    this.context = context;
    const startedMs = performance.now();
    let problem: string | null = null;
    try {
      await Promise.race([run(context), this.service.lost]);
      checkInvariants(this.parts.proxy.exchanges, {
        workerTimeoutS: this.parts.workerTimeoutS,
        firstSignalMs: context.firstSignalMs,
      });
    } catch (error) {
      if (!(error instanceof RuleViolation)) throw error;
      problem = error.message;
    } finally {
      await context.clear();
    }
    const seconds = (performance.now() - startedMs) / 1000;
    return { name, promise, seconds, problem, printed: problem === null ? '' : await context.printed() };
  }

  /** Stops everything, including the workers of a running scenario, and removes the folder. */
  async close(): Promise<void> {
    await this.context?.endWorkers();
    await this.parts.proxy.close();
    await this.service.stop(STOP_MS);
    await rm(this.parts.base, { recursive: true, force: true, maxRetries: 5 });
  }
}

function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => !/^(?:SERVICE_|DATABASE_URL$|NODE_TEST_CONTEXT$)/.test(name)),
  );
}
