import type { PendingReason } from '../../runs/pending-reason.js';
import { meets, requirementList, type Requirements } from '../../runs/requirements.js';
import { takesRuns, type PooledWorker } from '../../workers/pool/worker-pool.js';

/** A reason that depends on the workers. */
type WorkerReason = Extract<PendingReason, 'no_worker' | 'capability' | 'selector' | 'resources' | 'queue'>;

const NOTHING: Requirements = { tags: [], capabilities: [], gpuTags: [], gpus: null };

/** The active workers, of equal ones one: tells why a run that may be claimed waits. */
export class WorkerKinds {
  readonly #kinds: readonly PooledWorker[];
  readonly #suitable = new Map<string, readonly PooledWorker[] | WorkerReason>();

  constructor(workers: readonly PooledWorker[]) {
    const active = workers.filter(({ isActive }) => isActive);
    this.#kinds = [...new Map(active.map((worker) => [keyOf(worker), worker])).values()];
  }

  /** @param couldHold whether the worker has enough for the run when idle */
  reasonFor(required: Requirements, couldHold: (worker: PooledWorker) => boolean): WorkerReason {
    const key = JSON.stringify(requirementList(required));
    const suitable = this.#suitable.get(key) ?? this.#suitableFor(required);
    this.#suitable.set(key, suitable);
    if (typeof suitable === 'string') return suitable;
    if (suitable.some((worker) => takesRuns(worker) && couldHold(worker))) return 'queue';
    return suitable.some(couldHold) ? 'no_worker' : 'resources';
  }

  /** The workers that have all that is required, or what they lack. */
  #suitableFor(required: Requirements): readonly PooledWorker[] | WorkerReason {
    if (this.#kinds.length === 0) return 'no_worker';
    const able = this.#kinds.filter((worker) =>
      meets(worker, { ...NOTHING, capabilities: required.capabilities }),
    );
    if (able.length === 0) return 'capability';
    const tagged = able.filter((worker) => meets(worker, { ...required, gpus: null }));
    if (tagged.length === 0) return 'selector';
    return tagged.filter((worker) => meets(worker, required));
  }
}

function keyOf(worker: PooledWorker): string {
  const { cpuCores, ramMb, gpus, tags, capabilities } = worker;
  return JSON.stringify([takesRuns(worker), cpuCores, ramMb, gpus, tags, capabilities]);
}
