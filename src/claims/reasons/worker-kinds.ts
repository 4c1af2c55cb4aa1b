import type { PendingReason } from '../../runs/pending-reason.js';
import { elementsOf, requirementList, suitableGpus, type Requirements } from '../../runs/requirements.js';
import { takesRuns, type PooledWorker } from '../../workers/pool/worker-pool.js';

/** A reason that depends on the workers. */
type WorkerReason = Extract<PendingReason, 'no_worker' | 'capability' | 'selector' | 'resources' | 'queue'>;

const NOTHING: Requirements = { tags: [], capabilities: [], gpuTags: [], gpus: null };

/** A worker, and the tags and capabilities that it has, as `requirementList`. */
interface Kind {
  readonly worker: PooledWorker;
  readonly has: ReadonlySet<string>;
}

/** The active workers, of equal ones one: tells why a run that may be claimed waits. */
export class WorkerKinds {
  readonly #kinds: readonly Kind[];
  readonly #suitable = new Map<string, readonly PooledWorker[] | WorkerReason>();

  constructor(workers: readonly PooledWorker[]) {
    const active = workers.filter(({ isActive }) => isActive);
    const kinds = new Map(active.map((worker) => [keyOf(worker), worker])).values();
    this.#kinds = [...kinds].map((worker) => ({ worker, has: new Set(elementsOf(worker)) }));
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
    const able = withAll(this.#kinds, { ...NOTHING, capabilities: required.capabilities });
    if (able.length === 0) return 'capability';
    const tagged = withAll(able, { ...required, gpus: null });
    if (tagged.length === 0) return 'selector';
    const count = required.gpus?.count ?? 0;
    return tagged.flatMap(({ worker }) => (suitableGpus(worker, required) >= count ? [worker] : []));
  }
}

/** @param required tags and capabilities */
function withAll(kinds: readonly Kind[], required: Requirements): Kind[] {
  const elements = requirementList(required);
  return kinds.filter(({ has }) => elements.every((element) => has.has(element)));
}

function keyOf(worker: PooledWorker): string {
  const { cpuCores, ramMb, gpus, tags, capabilities } = worker;
  return JSON.stringify([takesRuns(worker), cpuCores, ramMb, gpus, tags, capabilities]);
}
