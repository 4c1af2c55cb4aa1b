import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serviceProgram } from '@longshore/common/service-program';
import { createLongshoreClient, type LongshoreClient } from '@longshore/client';
import type { Settings } from '../src/config/settings.js';
import { takeIdentity } from '@longshore/worker/process/worker-identity';
import { loadWorkerSettings } from '@longshore/worker/settings/worker-settings';
import { chooseRuntime } from '@longshore/worker/runtime/choose-runtime';
import { ChildProgram, type ChildPlan } from '@longshore/common/child-program';
import { planDemo, serviceEnvironment, workerEnvironment, type DemoPlan } from './demo-plan.js';
import { chooseDemoRuntime, type DemoRuntime } from './example-images.js';
import { definitionOf, EXAMPLES, imageName, type Example } from './examples.js';
import { RunDisplay } from './run-display.js';
import { changePriority, createRun, createWorkerKey, followRun } from './run-follower.js';
import type { Terminal } from './terminal.js';

const LISTENING = /listening on (https?:\/\/[^\s"\\]+)/;

/** The service drains for 10 s at most, and then stops its database; the worker stops its containers. */
const STOP_MS = 60_000;
const HOPELESS_STOP_MS = 2_000;
/** The examples take seconds; pulling their base images may take longer. */
const RUNS_MS = 300_000;

/** Dependencies of a demo. */
export interface DemoParts {
  readonly settings: Settings;
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  /** Ends the demo when it aborts. */
  readonly stop: AbortSignal;
}

interface Service {
  readonly url: string;
  readonly apiKey: string;
  readonly keyFile: string;
}

interface Child {
  readonly name: string;
  readonly program: ChildProgram;
  /** Cleans up after the program when it was killed. */
  readonly cleanUp: () => Promise<void>;
}

/** Runs the service, a worker and a run of each example, and cleans up afterwards. */
export class Demo {
  private readonly children: Child[] = [];
  private service: Service | undefined;

  constructor(private readonly parts: DemoParts) {}

  /**
   * Starts everything, and shows the runs until they end.
   * @returns how runs ended differently than expected; empty if none did
   * @throws ChildEnded when service or worker end; the signal's reason when `stop` aborts
   */
  async run(): Promise<readonly string[]> {
    const { settings, env, terminal, stop } = this.parts;
    const plan = await planDemo(settings, env);
    if (plan.port !== settings.port) {
      terminal.say(`port ${settings.port} is taken: the demo uses a free one`);
    }
    if ((env['DATABASE_URL'] ?? '') !== '') {
      terminal.say('DATABASE_URL is set; the demo uses the embedded PostgreSQL all the same');
    }
    await mkdir(plan.dataDir, { recursive: true });
    terminal.say(`starting the service on the embedded PostgreSQL in ${plan.dataDir}`);
    const service = await this.startService(plan);
    this.describe(service);
    const runtime = await this.whileAlive(this.chooseRuntime(plan));
    stop.throwIfAborted();
    const client = createLongshoreClient({ baseUrl: service.url, apiKey: service.apiKey });
    const workerKey = await this.whileAlive(createWorkerKey(client, plan.workerId));
    await this.startWorker(plan, { url: service.url, apiKey: workerKey }, runtime);
    const problems = await this.whileAlive(this.runExamples(client));
    this.service = service;
    return problems;
  }

  /** Prints the next step. Never resolves. @throws ChildEnded when service or worker end; the signal's reason when `stop` aborts */
  async serve(): Promise<never> {
    if (this.service !== undefined) this.suggest(this.service);
    this.parts.terminal.say('serving until Ctrl-C');
    return this.whileAlive(new Promise<never>(() => undefined));
  }

  /**
   * Stops worker, service and database, in this order, and cleans up after one that was killed.
   * @returns what did not stop cleanly
   */
  async close(): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const { name, program, cleanUp } of this.children.toReversed()) {
      // Without a service the worker cannot report how its runs end, and would try for a minute.
      const isHopeless = this.children.some((child) => child.name === 'service' && child.program.isLost);
      const wasLost = program.isLost;
      const how = await program.stop(isHopeless ? HOPELESS_STOP_MS : STOP_MS);
      if (how === null) continue;
      if (!wasLost && !isHopeless) problems.push(`the ${name} did not stop cleanly (${how})`);
      await cleanUp().catch((error: unknown) => {
        problems.push(`what the ${name} left could not be removed: ${String(error)}`);
      });
    }
    return problems;
  }

  private async startService(plan: DemoPlan): Promise<Service> {
    const env = serviceEnvironment(plan, this.parts.env);
    const program = this.start({
      ...servicePlan(plan, env, 'demo-service.log'),
      cleanUp: () => stopDatabase(plan, env),
    });
    const [, url = ''] = await this.whileAlive(program.untilLine(LISTENING));
    const keyFile = join(plan.dataDir, 'admin-key');
    return { url, apiKey: (await readFile(keyFile, 'utf8')).trim(), keyFile };
  }

  private async startWorker(
    plan: DemoPlan,
    service: Pick<Service, 'url' | 'apiKey'>,
    runtime: DemoRuntime,
  ): Promise<void> {
    const { terminal } = this.parts;
    terminal.say(
      runtime.name === 'docker'
        ? `the worker runs containers: ${runtime.reason}`
        : `the worker runs the examples as plain processes, without isolation: ${runtime.reason}`,
    );
    const env = workerEnvironment(plan, this.parts.env, { ...service, runtime: runtime.name });
    const program = this.start({
      name: 'worker',
      script: fileURLToPath(import.meta.resolve('@longshore/worker/main')),
      env,
      logFile: join(plan.dataDir, 'demo-worker.log'),
      cleanUp: () => removeRuns(env, plan.workerId),
    });
    await this.whileAlive(program.untilLine(/./));
  }

  private start({ cleanUp, ...plan }: ChildPlan & Pick<Child, 'cleanUp'>): ChildProgram {
    this.parts.stop.throwIfAborted();
    const program = new ChildProgram(plan);
    this.children.push({ name: plan.name, program, cleanUp });
    return program;
  }

  private chooseRuntime({ imagesDir }: DemoPlan): Promise<DemoRuntime> {
    const { env, terminal, stop } = this.parts;
    const images = new Map(EXAMPLES.map(({ name }) => [name, imageName(name)]));
    return chooseDemoRuntime({
      env,
      imagesDir,
      images,
      say: (line) => terminal.say(line),
      signal: stop,
    });
  }

  private async runExamples(client: LongshoreClient): Promise<readonly string[]> {
    const { terminal, stop } = this.parts;
    terminal.say('creating a run of each example');
    terminal.say('');
    const display = new RunDisplay(terminal.out, terminal.style, terminal.live);
    const timeout = AbortSignal.timeout(RUNS_MS);
    try {
      const signal = AbortSignal.any([stop, timeout]);
      const found = await Promise.all(
        EXAMPLES.map((example) => this.runExample(client, example, { display, signal })),
      );
      display.finish();
      terminal.say('');
      return found.flat();
    } catch (error) {
      stop.throwIfAborted();
      if (!timeout.aborted) throw error;
      return [`the runs did not end within ${RUNS_MS / 1000} s`];
    }
  }

  private async runExample(
    client: LongshoreClient,
    example: Example,
    { display, signal }: { display: RunDisplay; signal: AbortSignal },
  ): Promise<string[]> {
    const { name, inputs, changedPriority, verify } = example;
    const { id } = await createRun(client, definitionOf(example), inputs);
    if (changedPriority !== undefined) await changePriority(client, id, changedPriority);
    const { run, events } = await followRun(client, id, (update) => display.show(name, update), signal);
    const types = events.map(({ type }) => type);
    return verify(run, types).map((problem) => `${name}: ${problem}`);
  }

  private describe({ url, apiKey, keyFile }: Service): void {
    const { terminal } = this.parts;
    terminal.say('');
    terminal.say(`  API         ${terminal.strong(url)}`);
    terminal.say(`  Dashboard   ${terminal.strong(`${url}/ui/`)}`);
    terminal.say(`  Swagger UI  ${terminal.strong(`${url}/docs`)}`);
    terminal.say(`  API key     ${terminal.strong(apiKey)}`);
    terminal.say(`              kept in ${keyFile}`);
    terminal.say('');
  }

  private suggest({ url, apiKey }: Service): void {
    const { terminal } = this.parts;
    const body = JSON.stringify({ image: imageName('word-count'), inputs: { text: 'one more run' } });
    terminal.say('Create the next run:');
    terminal.say('');
    terminal.say(
      `curl -sS ${url}/runs -H 'X-API-Key: ${apiKey}' -H 'Content-Type: application/json' -d '${body}'`,
    );
    terminal.say('');
  }

  /** @throws ChildEnded when service or worker end before the work; the signal's reason when `stop` aborts */
  private async whileAlive<T>(work: Promise<T>): Promise<T> {
    const { stop } = this.parts;
    let onAbort: (() => void) | undefined;
    const stopped = new Promise<never>((_resolve, reject) => {
      onAbort = () => reject(stop.reason instanceof Error ? stop.reason : new Error('stopped'));
      stop.addEventListener('abort', onAbort, { once: true });
      if (stop.aborted) onAbort();
    });
    // The work may fail after the race is decided.
    work.catch(() => undefined);
    try {
      return await Promise.race([stopped, ...this.children.map(({ program }) => program.lost), work]);
    } finally {
      if (onAbort !== undefined) stop.removeEventListener('abort', onAbort);
    }
  }
}

function servicePlan({ dataDir }: DemoPlan, env: NodeJS.ProcessEnv, log: string): ChildPlan {
  return {
    name: 'service',
    script: serviceProgram(),
    env,
    logFile: join(dataDir, log),
  };
}

/** The database survives a killed service. Starts a second service, which stops the database when it ends. */
async function stopDatabase(plan: DemoPlan, env: NodeJS.ProcessEnv): Promise<void> {
  const program = new ChildProgram(
    servicePlan(plan, { ...env, SERVICE_PORT: '0' }, 'demo-service-cleanup.log'),
  );
  await program.untilLine(LISTENING);
  const how = await program.stop(STOP_MS);
  if (how !== null) throw new Error(`the service that was to stop the database ended with ${how}`);
}

/** Removes the containers or processes of a worker that died. @param env the worker's environment */
async function removeRuns(env: NodeJS.ProcessEnv, workerId: string): Promise<void> {
  const log = { info: () => undefined, warn: () => undefined };
  const settings = loadWorkerSettings([], env);
  const identity = takeIdentity({ ...settings, workerId });
  const runtime = await chooseRuntime({ ...settings, ...identity, env, log });
  await runtime.removeLeftovers();
}
