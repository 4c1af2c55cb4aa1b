import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createLongshoreClient, type LongshoreClient } from '../client/client.js';
import type { Settings } from '../settings/settings.js';
import { ChildProgram } from './child-program.js';
import { planDemo, serviceEnvironment, workerEnvironment, type DemoPlan } from './demo-plan.js';
import { chooseDemoRuntime, type DemoRuntime } from './example-images.js';
import { EXAMPLES, imageName, type Example } from './examples.js';
import { RunDisplay } from './run-display.js';
import { createRun, followRun } from './run-follower.js';
import type { Terminal } from './terminal.js';

/** The compiled sources that this file belongs to. */
const SOURCES = join(import.meta.dirname, '..');

/** The service drains for 10 s at most, and then stops its database. */
const SERVICE_STOP_MS = 60_000;
/** The worker stops its containers and reports how they ended. */
const WORKER_STOP_MS = 60_000;
/** The examples take seconds; pulling their base images may take longer. */
const RUNS_MS = 300_000;

/** What a demo is given. */
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

/** Runs the service, a worker and a run of each example, and cleans up behind them. */
export class Demo {
  private readonly children: { readonly name: string; readonly program: ChildProgram }[] = [];

  constructor(private readonly parts: DemoParts) {}

  /**
   * Starts everything, shows the runs until they end, and tells how to go on.
   * @returns the ways in which the runs ended otherwise than expected, in words; empty when all is well
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
    await this.startWorker(plan, service, runtime);
    const client = createLongshoreClient({ baseUrl: service.url, apiKey: service.apiKey });
    const problems = await this.whileAlive(this.runExamples(client));
    this.suggest(service);
    return problems;
  }

  /** Resolves never. @throws ChildEnded when service or worker end; the signal's reason when `stop` aborts */
  async serve(): Promise<never> {
    this.parts.terminal.say('serving until Ctrl-C');
    return this.whileAlive(new Promise<never>(() => undefined));
  }

  /** Stops worker, service and database, in this order. @returns what did not stop as it should, in words */
  async close(): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const { name, program } of this.children.splice(0).toReversed()) {
      const how = await program.stop();
      if (how !== null) problems.push(`the ${name} did not stop cleanly (${how})`);
    }
    return problems;
  }

  private async startService(plan: DemoPlan): Promise<Service> {
    const program = this.start('service', plan, {
      script: join(SOURCES, 'main.js'),
      env: serviceEnvironment(plan, this.parts.env),
      stopGraceMs: SERVICE_STOP_MS,
    });
    const [, url = ''] = await this.whileAlive(program.untilLine(/listening on (https?:\/\/[^\s"\\]+)/));
    const keyFile = join(plan.dataDir, 'admin-key');
    return { url, apiKey: (await readFile(keyFile, 'utf8')).trim(), keyFile };
  }

  private async startWorker(plan: DemoPlan, service: Service, runtime: DemoRuntime): Promise<void> {
    const { terminal, env } = this.parts;
    terminal.say(
      runtime.name === 'docker'
        ? `the worker runs containers: ${runtime.reason}`
        : `the worker runs the examples as plain processes, without isolation: ${runtime.reason}`,
    );
    const program = this.start('worker', plan, {
      script: join(SOURCES, 'agent', 'main.js'),
      env: workerEnvironment(plan, env, { ...service, runtime: runtime.name }),
      stopGraceMs: WORKER_STOP_MS,
    });
    await this.whileAlive(program.untilLine(/./));
  }

  private start(
    name: string,
    { dataDir }: DemoPlan,
    plan: { script: string; env: NodeJS.ProcessEnv; stopGraceMs: number },
  ): ChildProgram {
    this.parts.stop.throwIfAborted();
    const program = new ChildProgram({ name, logFile: join(dataDir, `demo-${name}.log`), ...plan });
    this.children.push({ name, program });
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
    const late = AbortSignal.timeout(RUNS_MS);
    try {
      const signal = AbortSignal.any([stop, late]);
      const found = await Promise.all(
        EXAMPLES.map((example) => this.runExample(client, example, { display, signal })),
      );
      display.finish();
      terminal.say('');
      return found.flat();
    } catch (error) {
      stop.throwIfAborted();
      if (!late.aborted) throw error;
      return [`the runs did not end within ${RUNS_MS / 1000} s`];
    }
  }

  private async runExample(
    client: LongshoreClient,
    { name, inputs, verify }: Example,
    { display, signal }: { display: RunDisplay; signal: AbortSignal },
  ): Promise<string[]> {
    const { id } = await createRun(client, { image: imageName(name), inputs: { ...inputs } });
    const { run, events } = await followRun(client, id, (news) => display.show(name, news), signal);
    const types = events.map(({ type }) => type);
    return verify(run, types).map((problem) => `${name}: ${problem}`);
  }

  private describe({ url, apiKey, keyFile }: Service): void {
    const { terminal } = this.parts;
    terminal.say('');
    terminal.say(`  API         ${terminal.strong(url)}`);
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
    // The work may fail after it has lost the race: nobody waits for it then.
    work.catch(() => undefined);
    try {
      return await Promise.race([stopped, ...this.children.map(({ program }) => program.lost), work]);
    } finally {
      if (onAbort !== undefined) stop.removeEventListener('abort', onAbort);
    }
  }
}
