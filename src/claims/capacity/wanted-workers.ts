import { requirementsOfList } from '../../runs/requirements.js';
import { offerOf, serves } from '../../runs/queue/lane.js';
import type { HeldRun, Shape } from '../../runs/scheduling-strategy.js';
import { freeResources, type FreeResources } from '../../workers/free-resources.js';
import { takesRuns, type PooledWorker } from '../../workers/pool/worker-pool.js';
import { countFitting } from '../strategies/fit-rule.js';
import type { WantedWorkersDto } from './capacity.dto.js';
import type { KindDemand } from './demand.reader.js';

/** A kind of workers, and how many there may be. */
export interface WorkerKind {
  /** All of its tags. */
  readonly tags: readonly string[];
  /** Cores; undefined: any number. */
  readonly cpu: number | undefined;
  /** MB; undefined: any number. */
  readonly ramMb: number | undefined;
  /** MB of its one GPU; 0: it has none. */
  readonly vramMb: number;
  readonly min: number;
  readonly max: number;
}

/** Who wants workers. */
export interface WantedFor {
  readonly kinds: readonly KindDemand[];
  readonly workers: readonly PooledWorker[];
  /** By worker. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Whether there may be more pending runs than were counted. */
  readonly isAtLeast: boolean;
  /** Whether runs are assigned by their resources. */
  readonly isByFit: boolean;
}

/** Equal workers with room for runs. */
interface Room {
  readonly workers: number;
  readonly free: FreeResources;
}

/**
 * How many workers of a kind there should be: those that execute runs, and as many more as the pending runs need that may be claimed
 * now and that such workers may get. They get what announced workers with these tags can do; without any, everything.
 */
export function wantedWorkers(
  kind: WorkerKind,
  { kinds, workers, held, isAtLeast, isByFit }: WantedFor,
): WantedWorkersDto {
  const tags = new Set(kind.tags);
  const present = workers.filter(
    (one) => new Set(one.tags).size === tags.size && one.tags.every((tag) => tags.has(tag)),
  );
  const offers = present.map(offerOf);
  const ours = kinds.filter(({ required }) => {
    const hasTags = requirementsOfList(required).tags.every((tag) => tags.has(tag));
    return hasTags && (offers.length === 0 || offers.some((offer) => serves(offer, { required })));
  });
  const busy = present.filter(({ id }) => held.has(id));
  const rooms = busy.filter(takesRuns).map((worker) => ({ worker, held: held.get(worker.id) ?? [] }));
  const pending = ours.reduce((sum, { admitted }) => sum + admitted, 0);
  const perWorker = Math.max(1, Math.floor(kind.cpu ?? 1));
  const { more, tooLarge } = isByFit
    ? moreByFit(
        ours,
        sizeOf(kind),
        rooms.map((one) => freeResources(one.worker, one.held)),
      )
    : moreByNumber(
        pending,
        perWorker,
        rooms.map((one) => one.held.length),
      );
  const needed = busy.length + more;
  const wanted = Math.max(kind.min, Math.min(kind.max, needed));
  const executing = busy.reduce((sum, { id }) => sum + (held.get(id)?.length ?? 0), 0);
  const rule = isByFit ? 'as runs fit into such a worker' : `at ${perWorker} a worker`;
  const bound = wanted === needed ? '' : `, bounded to ${wanted} by ${needed > wanted ? 'max' : 'min'}`;
  return {
    wanted,
    because:
      `${busy.length} workers execute ${executing} runs, and ${isAtLeast ? 'at least ' : ''}${pending} pending runs that such workers may ` +
      `get now need ${more} more, ${rule}${bound}.` +
      (tooLarge > 0 ? ` ${tooLarge} of these runs do not fit into such a worker.` : ''),
  };
}

/** @param executing runs of each worker that may get more */
function moreByNumber(pending: number, perWorker: number, executing: readonly number[]) {
  const free = executing.reduce((sum, runs) => sum + Math.max(0, perWorker - runs), 0);
  return { more: Math.ceil(Math.max(0, pending - free) / perWorker), tooLarge: 0 };
}

/** Packs runs into workers, the largest runs first, each into the first workers with room. */
function moreByFit(kinds: readonly KindDemand[], size: FreeResources, present: readonly FreeResources[]) {
  let rooms: Room[] = present.map((free) => ({ workers: 1, free }));
  let more = 0;
  let tooLarge = 0;
  const share = ({ cpuMillis, ramMb, vramMb, gpus }: Shape): number =>
    Math.max(
      cpuMillis / size.cpuMillis,
      ramMb / size.ramMb,
      gpus,
      vramMb / (size.gpus[0]?.vramMb ?? Infinity),
    );
  for (const kind of kinds.toSorted((a, b) => share(b) - share(a))) {
    let left = kind.admitted;
    rooms = rooms.flatMap((room) => {
      const filled = fill(room, kind, left);
      left = filled.left;
      return filled.rooms;
    });
    const perWorker = countFitting(size, kind);
    if (perWorker === 0) {
      tooLarge += left;
      continue;
    }
    const workers = Math.ceil(left / perWorker) || (left > 0 ? 1 : 0);
    more += workers;
    if (workers > 0) rooms.push(...fill({ workers, free: size }, kind, left).rooms);
  }
  return { more, tooLarge };
}

/** Puts runs of a shape into equal workers, one worker after the other. */
function fill(room: Room, shape: Shape, runs: number): { readonly rooms: Room[]; readonly left: number } {
  const each = Math.min(countFitting(room.free, shape), runs);
  if (each === 0) return { rooms: [room], left: runs };
  const full = Math.min(room.workers, Math.floor(runs / each));
  const rest = full < room.workers ? runs - full * each : 0;
  const parts = [
    { workers: full, free: without(room.free, shape, each) },
    { workers: rest > 0 ? 1 : 0, free: without(room.free, shape, rest) },
    { workers: room.workers - full - (rest > 0 ? 1 : 0), free: room.free },
  ];
  return { rooms: parts.filter(({ workers }) => workers > 0), left: runs - full * each - rest };
}

/** What so many runs of a shape leave, which fit. */
function without({ cpuMillis, ramMb, gpus }: FreeResources, shape: Shape, runs: number): FreeResources {
  let left = shape.gpus > 0 ? runs * shape.gpus : shape.vramMb > 0 ? runs : 0;
  return {
    cpuMillis: cpuMillis - runs * shape.cpuMillis,
    ramMb: ramMb - runs * shape.ramMb,
    gpus: gpus.map((gpu) => {
      if (left === 0 || gpu.vramMb < shape.vramMb || (shape.gpus > 0 && !gpu.isIdle)) return gpu;
      const taken = shape.gpus > 0 ? 1 : Math.min(left, Math.floor(gpu.vramMb / shape.vramMb));
      left -= taken;
      const vramMb = shape.gpus > 0 ? 0 : gpu.vramMb - taken * shape.vramMb;
      return { ...gpu, vramMb, isIdle: false };
    }),
  };
}

function sizeOf({ cpu = Infinity, ramMb = Infinity, vramMb }: WorkerKind): FreeResources {
  return {
    cpuMillis: cpu * 1000,
    ramMb,
    gpus: vramMb === 0 ? [] : [{ id: 0, vramMb, tags: [], isIdle: true }],
  };
}
