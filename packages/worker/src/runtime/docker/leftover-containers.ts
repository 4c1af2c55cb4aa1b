import type Dockerode from 'dockerode';
import type { WorkerIdentity } from '../../process/worker-identity.js';
import {
  ATTEMPT_LABEL,
  INSTANCE_LABEL,
  ownerLabels,
  RUN_LABEL,
  WORKER_LABEL,
} from './container/container-options.js';
import { removeContainer, type ContainerTiming } from './container/docker.container.js';
import type { FoundContainer } from '../runtime.js';
import { withLimit } from './engine/docker-engine.js';

/** States of a container whose program was started. */
const STARTED: ReadonlySet<string> = new Set(['running', 'paused', 'exited', 'stopped']);

interface Attempt {
  readonly runId: string;
  readonly attempt: number;
}

/**
 * Removes the containers of a worker that nobody needs.
 * @param isNeeded null: a container of the worker's own, without a run
 * @returns their number
 */
export async function removeLeftovers(
  engine: Dockerode,
  owner: WorkerIdentity,
  timing: ContainerTiming,
  isNeeded: (attempt: Attempt | null) => boolean,
): Promise<number> {
  const labels = Object.entries(ownerLabels(owner)).map(([name, value]) => `${name}=${value}`);
  const found = (await list(engine, labels, timing)).map((one) => ({ ...one, attempt: attemptOf(one) }));
  let removed = 0;
  // First those without a run: a nameless volume is removed with its run's container only when no other one has it.
  for (const { Id, attempt } of found.toSorted(
    (a, b) => Number(a.attempt !== null) - Number(b.attempt !== null),
  )) {
    if (isNeeded(attempt)) continue;
    await removeContainer(engine.getContainer(Id), timing);
    removed += 1;
  }
  return removed;
}

/** Started containers of the runs of a worker's id, ended ones among them. */
export async function findStarted(
  engine: Dockerode,
  { workerId, instance }: WorkerIdentity,
  timing: ContainerTiming,
): Promise<FoundContainer[]> {
  return (await list(engine, [`${WORKER_LABEL}=${workerId}`], timing)).flatMap((one) => {
    const attempt = attemptOf(one);
    const isOwn = one.Labels[INSTANCE_LABEL] === instance;
    return attempt === null || !STARTED.has(one.State) ? [] : [{ ...attempt, id: one.Id, isOwn }];
  });
}

/** Age from which a container without a run is in no use: it lives as long as some calls to the engine, in milliseconds. */
const UNUSED_MS = 600_000;

/**
 * Removes those of other processes with the worker's id: those of attempts that are lost, and old ones without a run.
 * @returns how many remain
 */
export async function removeAbandoned(
  engine: Dockerode,
  { workerId, instance }: WorkerIdentity,
  timing: ContainerTiming,
  isLost: (runId: string, attempt: number) => Promise<boolean>,
  nowMs = Date.now(),
): Promise<number> {
  let remaining = 0;
  for (const one of await list(engine, [`${WORKER_LABEL}=${workerId}`], timing)) {
    if (one.Labels[INSTANCE_LABEL] === instance) continue;
    const attempt = attemptOf(one);
    const isAbandoned =
      attempt === null
        ? nowMs - one.Created * 1000 > UNUSED_MS
        : await isLost(attempt.runId, attempt.attempt);
    if (isAbandoned) await removeContainer(engine.getContainer(one.Id), timing);
    else remaining += 1;
  }
  return remaining;
}

function attemptOf({ Labels }: Dockerode.ContainerInfo): Attempt | null {
  const runId = Labels[RUN_LABEL];
  return runId === undefined || runId === '' ? null : { runId, attempt: Number(Labels[ATTEMPT_LABEL]) };
}

function list(
  engine: Dockerode,
  label: string[],
  { callMs }: ContainerTiming,
): Promise<Dockerode.ContainerInfo[]> {
  return withLimit(callMs, 'list', (abortSignal) =>
    engine.listContainers({ all: true, filters: { label }, abortSignal }),
  );
}
