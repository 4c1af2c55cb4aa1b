import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  awaySecondsOf,
  capabilitiesOf,
  eventTypeOf,
  isOfLauncher,
  kindOf,
  namedRuns,
  runOf,
  type Exchange,
} from './exchange.js';
import type { FaultProxy } from './fault-proxy.js';
import { check } from './scenario.js';
import { checkTimeline, type KitRuns, type Run } from './kit-runs.js';
import { isRunning, type ProgramInputs, type ProgramTraces } from './program-traces.js';
import { SecondWorker } from './second-worker.js';
import { WorkerUnderTest } from './worker-under-test.js';

const POLL_MS = 25;

export interface ScenarioParts {
  /** Starts the worker under test. */
  readonly command: string;
  /** Base environment of workers. */
  readonly env: NodeJS.ProcessEnv;
  readonly base: string;
  readonly serviceUrl: string;
  readonly adminKey: string;
  readonly workerKey: string;
  readonly proxy: FaultProxy;
  readonly runs: KitRuns;
  readonly traces: ProgramTraces;
  readonly workerTimeoutS: number;
  /** Limit of every wait, in milliseconds. */
  readonly limitMs: number;
}

/** What a scenario uses: the service, the fault proxy, and the workers that it starts. */
export class ScenarioContext {
  readonly proxy: FaultProxy;
  readonly runs: KitRuns;
  readonly traces: ProgramTraces;
  readonly timeoutMs: number;
  readonly limitMs: number;
  private readonly workers: WorkerUnderTest[] = [];
  private readonly seconds: SecondWorker[] = [];

  constructor(
    private readonly parts: ScenarioParts,
    readonly name: string,
  ) {
    this.proxy = parts.proxy;
    this.runs = parts.runs;
    this.traces = parts.traces;
    this.timeoutMs = parts.workerTimeoutS * 1000;
    this.limitMs = parts.limitMs;
  }

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
        SERVICE_WORKER_STATE_DIR: join(base, 'state'),
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
      check(!worker.hasEnded, 'the worker ended by itself');
      return this.since(from).some((asked) => kindOf(asked) === 'heartbeat' && asked.answer?.status === 200);
    });
    return worker;
  }

  /** Time of the first signal to a worker, on the clock of `Exchange.atMs`; infinity: none. */
  get firstSignalMs(): number {
    return Math.min(...this.workers.flatMap(({ signalsMs }) => signalsMs));
  }

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

  /** What the newest heartbeat of the worker announces. */
  get capabilities(): readonly unknown[] {
    return this.newestHeartbeats(capabilitiesOf).flat();
  }

  /** Whether the newest heartbeat of the worker announces the capability. */
  announces(capability: string): boolean {
    return this.capabilities.includes(capability);
  }

  /** Whether the worker is a launcher, by its newest heartbeat. */
  get isLauncher(): boolean {
    return this.newestHeartbeats(isOfLauncher).includes(true);
  }

  /** For how long the newest heartbeat says that the worker will be away, in seconds; null: it does not say so. */
  get awaySeconds(): number | null {
    return this.newestHeartbeats(awaySecondsOf)[0] ?? null;
  }

  /** Waits until a heartbeat from the n-th request on names the run. */
  async untilNamed(runId: string, from: number): Promise<void> {
    await this.until('a heartbeat names the run', () =>
      this.since(from).some((asked) => namedRuns(asked).includes(runId)),
    );
  }

  /** What the newest heartbeat says; empty: there is none. */
  private newestHeartbeats<T>(read: (heartbeat: Exchange) => T): T[] {
    return this.proxy.exchanges
      .filter((asked) => kindOf(asked) === 'heartbeat')
      .slice(-1)
      .map(read);
  }

  /** Folders in which a worker may leave files. */
  get workerFolders(): readonly string[] {
    return [this.parts.env['TMPDIR'] ?? '', join(this.parts.base, 'state')];
  }

  /** Waits for something. @throws RuleViolation when it takes too long */
  async until(what: string, isSo: () => boolean | Promise<boolean>, withinMs = this.limitMs): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!(await isSo())) {
      check(performance.now() < deadline, `waited in vain until ${what}`);
      await sleep(POLL_MS);
    }
  }

  async untilProgramEnded(mark: string, withinMs = this.timeoutMs * 2): Promise<void> {
    await this.until('the program has ended', async () => !(await this.programRuns(mark)), withinMs);
  }

  /** Whether a program of the run is running. */
  async programRuns(mark: string): Promise<boolean> {
    return (await this.traces.readStarts(mark)).some(({ pid }) => isRunning(pid));
  }

  /** Waits until the folders of all attempts are deleted. */
  async untilFolderGone(mark: string): Promise<void> {
    await this.until(
      'the folder of the run is deleted',
      async () => (await this.traces.readStarts(mark)).every(({ inputPath }) => !existsSync(inputPath)),
      this.timeoutMs,
    );
  }

  /** Creates a run, by itself one whose program runs until it is stopped, and waits for its start. @returns its id */
  async startedRun(program: ProgramInputs): Promise<string> {
    const id = await this.runs.create({ gate: 'never', ...program });
    await this.untilProgramRuns(program.mark);
    // A launcher reports STARTED after the program has started.
    await this.runs.untilState(id, 'RUNNING');
    return id;
  }

  async untilProgramRuns(mark: string): Promise<void> {
    await this.until('the program works', async () => (await this.traces.readStarts(mark)).length > 0);
  }

  /** @throws RuleViolation when the worker reported about the run later than that */
  checkNoReports(runId: string, sinceMs: number, why: string): void {
    const late = this.reportsOf(runId).find(({ atMs }) => atMs > sinceMs);
    check(late === undefined, `${late && eventTypeOf(late)} was reported ${why}`);
  }

  /** @throws RuleViolation unless the program was started so often */
  async checkStarts(mark: string, count: number): Promise<void> {
    const starts = await this.traces.readStarts(mark);
    check(
      starts.length === count,
      `the program should have been started ${count} time(s), not ${starts.length}`,
    );
  }

  /** Checks that the worker completes another run. */
  async checkAnotherRun(): Promise<void> {
    const mark = `${this.name}-next`;
    const id = await this.runs.create({ mark, outputs: { next: true } });
    await this.runs.untilState(id, 'COMPLETED');
  }

  /** Creates a run and checks that its program is started once and completes it. */
  async completedRun(program: ProgramInputs, timeline = '1 STARTED, 1 COMPLETED'): Promise<Run> {
    const id = await this.runs.create(program);
    const run = await this.runs.untilState(id, 'COMPLETED');
    checkTimeline(run, timeline);
    await this.checkStarts(program.mark, 1);
    return run;
  }

  /** The end of the last worker's output. */
  async printed(): Promise<string> {
    return (await this.workers.at(-1)?.printed()) ?? '';
  }

  /** Kills all workers and programs of the scenario. Idempotent. */
  async endWorkers(): Promise<void> {
    for (const worker of this.workers) await worker.kill();
    for (const second of this.seconds) second.end();
    await this.traces.endAll();
  }

  /** Cleans up after the scenario. */
  async clear(): Promise<void> {
    await this.endWorkers();
    this.proxy.reset();
    await this.runs.endAll();
    await this.traces.clear();
  }
}
