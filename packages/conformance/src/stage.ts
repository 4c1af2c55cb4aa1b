import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventTypeOf, kindOf, runOf, type Exchange } from './exchange.js';
import type { FaultProxy } from './fault-proxy.js';
import { demand } from './kit-error.js';
import type { KitRuns } from './kit-runs.js';
import { IMAGES, isRunning, type ProgramTraces } from './program-traces.js';
import { SecondWorker } from './second-worker.js';
import { WorkerUnderTest } from './worker-under-test.js';

const LOOK_MS = 25;

/** What all scenarios of a kit share. */
export interface StageParts {
  /** Starts the worker under test. */
  readonly command: string;
  /** Where it runs; default: the kit's own environment without anything of the service. */
  readonly env: NodeJS.ProcessEnv;
  readonly base: string;
  readonly serviceUrl: string;
  readonly adminKey: string;
  readonly workerKey: string;
  readonly proxy: FaultProxy;
  readonly runs: KitRuns;
  readonly traces: ProgramTraces;
  /** Seconds of silence after which the service gives a worker up. */
  readonly workerTimeoutS: number;
  /** How long anything may take, in milliseconds. */
  readonly patienceMs: number;
}

/** What a scenario plays on: the service, the proxy before it, and workers that it starts. */
export class Stage {
  readonly proxy: FaultProxy;
  readonly runs: KitRuns;
  readonly traces: ProgramTraces;
  readonly timeoutMs: number;
  readonly patienceMs: number;
  private readonly workers: WorkerUnderTest[] = [];
  private readonly seconds: SecondWorker[] = [];

  constructor(
    private readonly parts: StageParts,
    /** Tells this scenario's workers and runs from those of others. */
    readonly name: string,
  ) {
    this.proxy = parts.proxy;
    this.runs = parts.runs;
    this.traces = parts.traces;
    this.timeoutMs = parts.workerTimeoutS * 1000;
    this.patienceMs = parts.patienceMs;
  }

  /** The worker's id, when it has but one life. */
  get workerId(): string {
    return `kit:${this.name}`;
  }

  /** Starts the worker, and waits until it is registered. */
  async startWorker(id = this.workerId, env: NodeJS.ProcessEnv = {}): Promise<WorkerUnderTest> {
    const { command, proxy, traces, workerKey, base } = this.parts;
    const from = proxy.exchanges.length;
    const worker = new WorkerUnderTest({
      command,
      logFile: join(base, `${this.name}.log`),
      env: {
        ...this.parts.env,
        SERVICE_URL: proxy.url,
        SERVICE_API_KEY: workerKey,
        SERVICE_WORKER_ID: id,
        SERVICE_WORKER_COMMAND: traces.command,
        SERVICE_WORKER_PULL_COMMAND: traces.pullCommand,
        SERVICE_WORKER_TICK: '0.2',
        SERVICE_WORKER_DRAIN: '10',
        SERVICE_WORKER_MAX_RUNS: '1',
        SERVICE_WORKER_RUNTIME: 'process',
        SERVICE_WORKER_IMAGES_DIR: traces.imagesDir,
        ...env,
      },
    });
    this.workers.push(worker);
    await this.until('the worker has sent a heartbeat that the service takes', () => {
      demand(!worker.hasEnded, 'the worker ended by itself');
      return this.since(from).some((asked) => kindOf(asked) === 'heartbeat' && asked.answer?.status === 200);
    });
    return worker;
  }

  /** When a worker was first told to end, or killed, on the clock of `Exchange.atMs`; infinity when none was. */
  get firstSignalMs(): number {
    return Math.min(...this.workers.flatMap(({ signalsMs }) => signalsMs));
  }

  /** A worker of the kit's own. */
  secondWorker(): SecondWorker {
    const { serviceUrl, adminKey } = this.parts;
    const second = new SecondWorker(serviceUrl, adminKey, `second:${this.name}`);
    this.seconds.push(second);
    return second;
  }

  /** Requests from the n-th on. */
  since(from: number): readonly Exchange[] {
    return this.proxy.exchanges.slice(from);
  }

  /** Reports about the run, repetitions included. */
  reportsOf(runId: string, type?: string): Exchange[] {
    return this.proxy.exchanges.filter((asked) => {
      const reported = eventTypeOf(asked);
      return reported !== null && runOf(asked) === runId && (type === undefined || reported === type);
    });
  }

  /** Waits for something. @throws RuleBroken when it takes too long */
  async until(
    what: string,
    isSo: () => boolean | Promise<boolean>,
    withinMs = this.patienceMs,
  ): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!(await isSo())) {
      demand(performance.now() < deadline, `waited in vain until ${what}`);
      await sleep(LOOK_MS);
    }
  }

  /** Waits until no program of the run is there any more. */
  async untilProgramEnded(mark: string): Promise<void> {
    await this.until(
      'the program has ended',
      async () => (await this.traces.startsOf(mark)).every(({ pid }) => !isRunning(pid)),
      this.timeoutMs * 2,
    );
  }

  /** Waits until what the run's programs found as their inputs is deleted, in every attempt. */
  async untilFolderGone(mark: string): Promise<void> {
    await this.until(
      'the folder of the run is deleted',
      async () => (await this.traces.startsOf(mark)).every(({ inputPath }) => !existsSync(inputPath)),
      this.timeoutMs,
    );
  }

  /** Creates a run whose program works until it is stopped, and waits until it does. @returns its id */
  async endlessRun(mark: string, print: readonly string[] = []): Promise<string> {
    const id = await this.runs.create(IMAGES.plain, { mark, print, gate: 'never' });
    await this.untilWorks(mark);
    return id;
  }

  /** Waits until the program of the run works. */
  async untilWorks(mark: string): Promise<void> {
    await this.until('the program works', async () => (await this.traces.startsOf(mark)).length > 0);
  }

  /** @throws RuleBroken when the worker reported about the run later than that */
  demandNoReports(runId: string, sinceMs: number, why: string): void {
    const late = this.reportsOf(runId).find(({ atMs }) => atMs > sinceMs);
    demand(late === undefined, `${late && eventTypeOf(late)} was reported ${why}`);
  }

  /** @throws RuleBroken unless the program was started so often */
  async demandStarts(mark: string, count: number): Promise<void> {
    const starts = await this.traces.startsOf(mark);
    demand(
      starts.length === count,
      `the program should have been started ${count} time(s), not ${starts.length}`,
    );
  }

  /** Shows that the worker carries on: one more run, to its end. */
  async demandAnotherRun(): Promise<void> {
    const mark = `${this.name}-next`;
    const id = await this.runs.create('plain', { mark, outputs: { next: true } });
    await this.runs.untilState(id, 'COMPLETED');
  }

  /** What the workers have printed last. */
  async printed(): Promise<string> {
    return (await this.workers.at(-1)?.printed()) ?? '';
  }

  /** Ends all workers and programs of the scenario; harmless when they have ended. */
  async endWorkers(): Promise<void> {
    for (const worker of this.workers) await worker.kill();
    for (const second of this.seconds) second.end();
    await this.traces.endAll();
  }

  /** Ends everything that the scenario has begun. */
  async clear(): Promise<void> {
    await this.endWorkers();
    this.proxy.reset();
    await this.runs.endAll();
    await this.traces.clear();
  }
}
