import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChildProgram } from '@longshore/common/child-program';
import { serviceProgram } from '@longshore/common/service-program';
import { FaultProxy } from './fault-proxy.js';
import { RuleBroken } from './kit-error.js';
import { KitRuns } from './kit-runs.js';
import { ProgramTraces, WORKER_KEY_START } from './program-traces.js';
import type { Scenario } from './scenario.js';
import { slowPullSeconds } from './scenarios/liveness.js';
import { Stage, type StageParts } from './stage.js';
import { demandStandingRules } from './standing-rules.js';

const LISTENING = /listening on (https?:\/\/[^\s"\\]+)/;
const STOP_MS = 30_000;

/** Short enough for a kit of a minute, long enough for a machine that is busy. */
const WORKER_TIMEOUT_S = 3;
const REAPER_INTERVAL_S = 0.25;
const PATIENCE_MS = 20_000;

/** How a scenario came out. */
export interface ScenarioResult {
  readonly name: string;
  readonly promise: string;
  readonly seconds: number;
  /** The rule that was broken, in words; null when it passed. */
  readonly problem: string | null;
  /** The end of what the worker printed, when it did not pass. */
  readonly printed: string;
}

/** A service with a proxy before it, on which workers are put to the test. */
export class ConformanceKit {
  private stage: Stage | null = null;

  private constructor(
    private readonly service: ChildProgram,
    private readonly parts: Omit<StageParts, 'command'>,
  ) {}

  /**
   * Starts the service on the embedded PostgreSQL in a new folder, and the proxy.
   * @param env where PATH and the like come from; settings of a service or a worker in it are left out
   * @throws ChildEnded when the service does not start
   */
  static async start(env: NodeJS.ProcessEnv): Promise<ConformanceKit> {
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
        SERVICE_WORKER_TIMEOUT: String(WORKER_TIMEOUT_S),
        SERVICE_REAPER_INTERVAL: String(REAPER_INTERVAL_S),
      },
    });
    try {
      const [, serviceUrl = ''] = await service.untilLine(LISTENING);
      const workerTmp = join(base, 'tmp');
      await mkdir(workerTmp);
      return new ConformanceKit(service, {
        base,
        env: { ...plain, TMPDIR: workerTmp },
        serviceUrl,
        adminKey,
        workerKey,
        proxy: await FaultProxy.start(Number(new URL(serviceUrl).port)),
        runs: new KitRuns(serviceUrl, adminKey, PATIENCE_MS),
        traces: await ProgramTraces.make(base, slowPullSeconds(WORKER_TIMEOUT_S)),
        workerTimeoutS: WORKER_TIMEOUT_S,
        patienceMs: PATIENCE_MS,
      });
    } catch (error) {
      await service.stop(STOP_MS);
      await rm(base, { recursive: true, force: true });
      throw error;
    }
  }

  /** Plays one scenario with workers that the command starts. Only a broken rule is a result; anything else is thrown. */
  async play({ name, promise, play }: Scenario, command: string): Promise<ScenarioResult> {
    const stage = new Stage({ ...this.parts, command }, name);
    this.stage = stage;
    const startedMs = performance.now();
    let problem: string | null = null;
    try {
      await Promise.race([play(stage), this.service.lost]);
      demandStandingRules(this.parts.proxy.exchanges, {
        workerTimeoutS: this.parts.workerTimeoutS,
        firstSignalMs: stage.firstSignalMs,
      });
    } catch (error) {
      if (!(error instanceof RuleBroken)) throw error;
      problem = error.message;
    } finally {
      await stage.clear();
    }
    const seconds = (performance.now() - startedMs) / 1000;
    return { name, promise, seconds, problem, printed: problem === null ? '' : await stage.printed() };
  }

  /** Stops everything, the workers of a scenario under way included, and removes the folder. */
  async close(): Promise<void> {
    await this.stage?.endWorkers();
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
