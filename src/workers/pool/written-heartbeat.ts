import { createHash } from 'node:crypto';
import type { Gpu } from '../../runs/scheduling-strategy.js';
import type { Heartbeat, ReportedRun } from './worker-pool.js';

/** What the pool keeps of a worker's own description, as JSON in the database. */
export interface WorkerDescription {
  readonly cpuCores: number;
  readonly ramMb: number;
  readonly gpus: readonly Gpu[];
  readonly tags: readonly string[];
}

/** A heartbeat made ready to be written: texts, and hashes by which a row is known to say the same already. */
export interface WrittenHeartbeat {
  readonly heartbeat: Heartbeat;
  /** JSON of a {@link WorkerDescription}. */
  readonly description: string;
  readonly descriptionHash: string;
  /** Null for a heartbeat that does not speak of running runs. */
  readonly running: WrittenRuns | null;
}

interface WrittenRuns {
  readonly ops: readonly ReportedRun[];
  readonly ids: readonly string[];
  /** JSON of the runs. */
  readonly text: string;
  readonly hash: string;
}

/** What several heartbeats of one worker come to: the newest one wins, each of them counts as a report of its own. */
export interface GatheredHeartbeats {
  readonly newest: WrittenHeartbeat;
  /** The newest that was said of running runs. */
  readonly running: WrittenRuns | null;
  /** Number of heartbeats that spoke of running runs. */
  readonly reports: number;
  /** Runs that were named, though not by the newest report. */
  readonly earlierIds: readonly string[];
}

/** Hash of an empty list of running runs. */
export const NOTHING_RUNNING = hashOf('[]');

/** The texts of a heartbeat. */
export function writeHeartbeat(heartbeat: Heartbeat): WrittenHeartbeat {
  const { cpuCores, ramMb, gpus, tags, runningOps } = heartbeat;
  const description = JSON.stringify({ cpuCores, ramMb, gpus, tags } satisfies WorkerDescription);
  const text = runningOps && JSON.stringify(runningOps);
  return {
    heartbeat,
    description,
    descriptionHash: hashOf(description),
    running:
      runningOps && text !== undefined
        ? { ops: runningOps, ids: runningOps.map(({ id }) => id), text, hash: hashOf(text) }
        : null,
  };
}

/** Characters that a heartbeat occupies while it waits, roughly. */
export function weightOf({ description, running }: WrittenHeartbeat): number {
  return description.length + (running?.text.length ?? 0);
}

/** One entry a worker, whatever number of heartbeats it sent. */
export function gather(written: readonly WrittenHeartbeat[]): GatheredHeartbeats[] {
  const byWorker = new Map<string, WrittenHeartbeat[]>();
  for (const one of written) {
    const { id } = one.heartbeat;
    const others = byWorker.get(id);
    if (others) others.push(one);
    else byWorker.set(id, [one]);
  }
  return [...byWorker.values()].map(gatherOfOne);
}

function gatherOfOne(written: readonly WrittenHeartbeat[]): GatheredHeartbeats {
  const newest = written.at(-1);
  if (newest === undefined) throw new RangeError('there is no heartbeat to gather');
  const reports = written.flatMap(({ running }) => running ?? []);
  const running = reports.at(-1) ?? null;
  const earlierIds = new Set(reports.slice(0, -1).flatMap(({ ids }) => ids));
  for (const id of running?.ids ?? []) earlierIds.delete(id);
  return { newest, running, reports: reports.length, earlierIds: [...earlierIds] };
}

/** 128 bits, in the spelling of a UUID so that the database keeps them as such. */
function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
