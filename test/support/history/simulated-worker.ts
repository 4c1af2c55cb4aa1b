import { setTimeout as sleep } from 'node:timers/promises';
import type { Handed } from './history.js';
import { untilKnown, type RecordedService } from './recorded-service.js';
import type { SeededRandom } from './seeded-random.js';

/** How a worker behaves; times in milliseconds. */
export interface WorkerHabits {
  readonly heartbeatMs: number;
  /** Runs that it executes at once. */
  readonly capacity: number;
  readonly tags: readonly string[];
}

/** How often of a hundred an execution fails. */
const FAILURES = 12;

/** How often of a hundred an execution is a job that is submitted first. */
const SUBMISSIONS = 30;

/** Longest pause before a report of a run, in milliseconds. */
const LONGEST_STEP_MS = 60;
/** Of a hundred runs, how many have pauses so many times as long. */
const SLOW_RUNS = 8;
const SLOWER = 25;

/**
 * A worker that speaks HTTP only: it heartbeats, claims with a key that it keeps until it has an answer, and reports
 * each run until the report is acknowledged or refused. It can be frozen, as by SIGSTOP, and die.
 */
export class SimulatedWorker {
  readonly #running = new Map<string, Handed>();
  #life = 0;
  #serial = 0;
  #gate: Promise<void> = Promise.resolve();
  #open: () => void = () => undefined;
  readonly #loops = new Set<Promise<void>>();

  constructor(
    readonly id: string,
    private readonly service: RecordedService,
    private readonly random: SeededRandom,
    readonly habits: WorkerHabits,
  ) {
    this.start();
  }

  /** True when it executes nothing. */
  get isIdle(): boolean {
    return this.#running.size === 0;
  }

  /** Begins anew under its id, knowing nothing of what it executed before. */
  start(): void {
    this.die();
    const life = this.#life;
    this.#spawn(this.#heartbeats(life));
    this.#spawn(this.#claims(life));
  }

  /** Stops at once; what it executes is forgotten. */
  die(): void {
    this.#life += 1;
    this.#running.clear();
    this.resume();
  }

  /** Stands still until it is resumed, also between a request and its answer. */
  freeze(): void {
    this.resume();
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  /** Goes on where it stood still. */
  resume(): void {
    this.#open();
  }

  /** Dies, and waits for its last requests. */
  async stop(): Promise<void> {
    this.die();
    await Promise.all(this.#loops);
  }

  #spawn(loop: Promise<void>): void {
    this.#loops.add(loop);
    void loop.finally(() => this.#loops.delete(loop));
  }

  /** True as long as this life goes on; stands still while the worker is frozen. */
  async #lives(life: number): Promise<boolean> {
    await this.#gate;
    return life === this.#life;
  }

  async #heartbeats(life: number): Promise<void> {
    const { heartbeatMs, tags } = this.habits;
    for (let server = this.random.int(0, 1); await this.#lives(life);) {
      const began = performance.now();
      await this.service.heartbeat(
        { actor: this.id, server },
        { worker: this.id, tags, running: [...this.#running.keys()], timeoutMs: heartbeatMs * 0.6 },
      );
      // Whether it was heard or not, the next one goes to another server, in its time.
      server += 1;
      await sleep(Math.max(10, heartbeatMs - (performance.now() - began)));
    }
  }

  async #claims(life: number): Promise<void> {
    while (await this.#lives(life)) {
      if (this.#running.size >= this.habits.capacity) {
        await sleep(10);
        continue;
      }
      const key = this.#unique('claim');
      const waitS = this.random.chance(50) ? this.random.int(1, 2) : 0;
      const send = (server: number) =>
        this.service.claim(
          { actor: this.id, server },
          { worker: this.id, tags: this.habits.tags, key, waitS },
        );
      const outcome = await untilKnown(send, this.random.int(0, 1), () => life === this.#life);
      if (!(await this.#lives(life))) return;
      const handed = outcome.kind === 'answered' ? outcome.value : [];
      for (const run of handed) {
        this.#running.set(run.runId, run);
        this.#spawn(this.#execute(run, life));
      }
      if (handed.length === 0) await sleep(this.random.int(20, 150));
    }
  }

  async #execute(run: Handed, life: number): Promise<void> {
    const { random } = this;
    const notes = random.int(0, 2);
    const longestStepMs = LONGEST_STEP_MS * (random.chance(SLOW_RUNS) ? SLOWER : 1);
    const end = random.chance(FAILURES) ? 'FAILED' : 'COMPLETED';
    const payload =
      end === 'FAILED'
        ? { error_message: 'by chance', cause: random.pick(['error', 'exit']) }
        : { outputs: { run: run.runId } };
    const job = { engine: 'slurm', engine_id: this.#unique('job'), reason: 'Priority' };
    const steps: readonly [type: string, msg: string | number, payload: object][] = [
      ...(random.chance(SUBMISSIONS) ? [['SUBMITTED', 'submitted', job] as [string, string, object]] : []),
      ['STARTED', 'started', { worker_id: this.id }],
      ...Array.from({ length: notes }, (_, i): [string, number, object] => ['PROGRESS', (i + 1) * 30, {}]),
      [end, 'ended', payload],
    ];
    for (const [type, msg, more] of steps) {
      await sleep(random.int(0, longestStepMs));
      if (!(await this.#lives(life)) || !(await this.#report(run, life, { type, msg, payload: more }))) break;
    }
    if (life === this.#life && this.#running.get(run.runId) === run) this.#running.delete(run.runId);
  }

  /** Reports until it is known what became of it; false when the run is this worker's no longer. */
  async #report(
    { runId, attempt }: Handed,
    life: number,
    event: { readonly type: string; readonly msg: string | number; readonly payload: object },
  ): Promise<boolean> {
    const mark = this.#unique('report');
    const reporter = { worker: this.id, attempt };
    const report = { runId, mark, key: mark, reporter, ...event };
    const send = (server: number) => this.service.report({ actor: this.id, server }, report);
    const outcome = await untilKnown(send, this.random.int(0, 1), () => life === this.#life);
    return outcome.kind === 'answered';
  }

  #unique(what: string): string {
    this.#serial += 1;
    return `${this.id}-${what}-${this.#serial}`;
  }
}
