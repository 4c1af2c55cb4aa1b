import { setTimeout as sleep } from 'node:timers/promises';
import type { State } from './history.js';
import { untilKnown, type RecordedService, type Sender } from './recorded-service.js';
import type { DrawnFields } from './drawn-runs.js';
import type { SeededRandom } from './seeded-random.js';

/** Topics that runs name. */
export const TOPICS = ['topic-0', 'topic-1', 'topic-2', 'topic-3'] as const;

/** Runs that a client remembers to do something to. */
const REMEMBERED = 30;

const PATCHED_STATES: readonly [State, ...State[]] = ['PENDING', 'CANCELLED', 'COMPLETED', 'FAILED'];

/** How many runs the clients together are to create, and how far they may be by now. */
export interface Quota {
  /** Takes one of the runs that may be created now; false when none is left at the moment. */
  take(): boolean;
  /** Puts one back that was taken: nobody knows whether it was created. */
  putBack(): void;
}

/**
 * A client that creates runs and does to them whatever clients do, all drawn from its random numbers: notes, cancels,
 * retries, patches, and reading back from another server what it has just written.
 */
export class LoadClient {
  readonly #runs: string[] = [];
  #serial = 0;
  #stopped = false;
  readonly #loop: Promise<void>;

  constructor(
    readonly name: string,
    private readonly service: RecordedService,
    private readonly random: SeededRandom,
    private readonly quota: Quota,
    /** The options of a run that it creates. @param known ids of the runs that it remembers */
    private readonly draw: (random: SeededRandom, known: readonly string[]) => DrawnFields = () => ({}),
  ) {
    this.#loop = this.#work();
  }

  /** Finishes what it is doing. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
  }

  async #work(): Promise<void> {
    while (!this.#stopped) {
      if (this.quota.take()) await this.#create();
      else await sleep(this.random.int(5, 40));
      const runId = this.random.pick(this.#runs);
      if (runId !== undefined && this.random.chance(60)) await this.#disturb(runId);
    }
  }

  async #create(): Promise<void> {
    const { random } = this;
    const mark = this.#unique('run');
    const key = random.chance(75) ? mark : null;
    const backoff = random.chance(10) ? { backoff_s: 1, max_backoff_s: 1 } : {};
    const { retry_on: retryOn, grow, ...options } = this.draw(random, this.#runs);
    const body = {
      priority: random.int(-2, 2),
      retry_policy: { max_attempts: random.int(1, 3), ...backoff, retry_on: retryOn, grow },
      ...options,
      ...(random.chance(80) ? { event_delivery: { topic: random.pick(TOPICS) } } : {}),
    };
    const send = (server: number) => this.service.create({ actor: this.name, server }, { mark, key, body });
    const server = random.int(0, 1);
    const outcome = key === null ? await send(server) : await untilKnown(send, server, () => !this.#stopped);
    if (outcome.kind !== 'answered') {
      this.quota.putBack();
      return;
    }
    const { runId } = outcome.value;
    this.#runs.push(runId);
    if (this.#runs.length > REMEMBERED) this.#runs.shift();
    if (random.chance(30)) await this.service.read({ actor: this.name, server: server + 1 }, runId);
  }

  async #disturb(runId: string): Promise<void> {
    const { random, service } = this;
    const sender: Sender = { actor: this.name, server: random.int(0, 1) };
    const drawn = random.int(0, 99);
    if (drawn < 70) await this.#note(runId);
    else if (drawn < 80) await service.read(sender, runId);
    else if (drawn < 88) await service.command(sender, 'cancel', runId);
    else if (drawn < 93) await service.command(sender, 'retry', runId);
    else if (drawn < 97) await service.patch(sender, runId, { priority: random.int(-5, 5) });
    else await service.patch(sender, runId, { state: random.pick(PATCHED_STATES) });
  }

  async #note(runId: string): Promise<void> {
    const { random } = this;
    const mark = this.#unique('note');
    const key = random.chance(75) ? mark : null;
    const report = { runId, type: 'NOTE', msg: 'noted', mark, key, reporter: null };
    const send = (server: number) => this.service.report({ actor: this.name, server }, report);
    const server = random.int(0, 1);
    const outcome = key === null ? await send(server) : await untilKnown(send, server, () => !this.#stopped);
    if (outcome.kind === 'answered' && random.chance(50)) {
      await this.service.read({ actor: this.name, server: server + 1 }, runId);
    }
  }

  #unique(what: string): string {
    this.#serial += 1;
    return `${this.name}-${what}-${this.#serial}`;
  }
}
