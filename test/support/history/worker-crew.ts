import { setTimeout as sleep } from 'node:timers/promises';
import { CHAOS_SETTINGS } from './chaos-deployment.js';
import type { RecordedService } from './recorded-service.js';
import { SeededRandom } from './seeded-random.js';
import { SimulatedWorker } from './simulated-worker.js';
import { WORKER_TAGS } from './drawn-runs.js';

const TIMEOUT_MS = CHAOS_SETTINGS.workerTimeout * 1000;
const HABITS = { heartbeatMs: TIMEOUT_MS / 5, capacity: 3 } as const;

/** Workers, every second one with tags, of which some die, some stand still for longer than the timeout, and some start again under their id. */
export class WorkerCrew {
  /** What befell workers, by name. */
  readonly mishaps = { deaths: 0, freezes: 0, restarts: 0 };
  readonly #workers: SimulatedWorker[] = [];
  readonly #frozen = new Set<SimulatedWorker>();
  readonly #gone: SimulatedWorker[] = [];
  #serial = 0;

  constructor(
    private readonly service: RecordedService,
    private readonly seed: number,
    size: number,
  ) {
    for (let i = 0; i < size; i += 1) this.#hire(i % 2 === 0 ? WORKER_TAGS : []);
  }

  /** One mishap after the other, until the time is over. */
  async suffer(random: SeededRandom, goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      await sleep(random.int(300, 1500));
      const well = this.#workers.filter((worker) => !this.#frozen.has(worker));
      const worker = random.pick(well);
      // At least one half stays well.
      if (worker === undefined || well.length <= this.#workers.length / 2) continue;
      const drawn = random.int(0, 2);
      if (drawn === 0) this.#replace(worker);
      else if (drawn === 1) void this.#freeze(worker, TIMEOUT_MS + random.int(500, 2500));
      else {
        this.mishaps.restarts += 1;
        worker.start();
      }
    }
  }

  /** Nobody stands still any longer. */
  heal(): void {
    for (const worker of this.#frozen) worker.resume();
    this.#frozen.clear();
  }

  /** Ends all of them and waits for their last requests. */
  async stop(): Promise<void> {
    this.heal();
    await Promise.all([...this.#workers, ...this.#gone].map((worker) => worker.stop()));
  }

  #hire(tags: readonly string[]): void {
    this.#serial += 1;
    const id = `worker-${this.#serial}`;
    this.#workers.push(
      new SimulatedWorker(id, this.service, SeededRandom.for(this.seed, id), { ...HABITS, tags }),
    );
  }

  #replace(worker: SimulatedWorker): void {
    this.mishaps.deaths += 1;
    worker.die();
    this.#gone.push(worker);
    this.#workers.splice(this.#workers.indexOf(worker), 1);
    this.#hire(worker.habits.tags);
  }

  async #freeze(worker: SimulatedWorker, ms: number): Promise<void> {
    this.mishaps.freezes += 1;
    this.#frozen.add(worker);
    worker.freeze();
    await sleep(ms);
    worker.resume();
    this.#frozen.delete(worker);
  }
}
