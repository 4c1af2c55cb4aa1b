import type { JobKey, JobSpec } from '../launcher/engine.js';
import type { Gpu, Resources } from '@longshore/worker/service-api/service-api';

/** Fields of a line of squeue; the reason comes last, because it alone may hold the separator. */
export const JOB_FORMAT = '%i|%T|%C|%m|%b|%j|%k|%r';

/** A job as squeue lists it. */
export interface SlurmJob extends JobKey {
  readonly id: string;
  /** In Slurm's words, such as PENDING. */
  readonly state: string;
  readonly cpus: number;
  /** Memory of the node that it holds; 0: unknown. */
  readonly ramMb: number;
  /** GPUs by type; `gpu`: without a type. */
  readonly gpus: ReadonlyMap<string, number>;
  /** The launcher that submitted it; empty: unknown. */
  readonly workerId: string;
  /** Why it waits, in Slurm's words; empty: not said. */
  readonly reason: string;
}

/** States of jobs that have ended for good. */
const ENDED = new Set([
  'BOOT_FAIL',
  'CANCELLED',
  'COMPLETED',
  'DEADLINE',
  'FAILED',
  'LAUNCH_FAILED',
  'NODE_FAIL',
  'OUT_OF_MEMORY',
  'PREEMPTED',
  'RECONFIG_FAIL',
  'REVOKED',
  'TIMEOUT',
]);
const WAITING = new Set([
  'PENDING',
  'REQUEUED',
  'REQUEUE_HOLD',
  'REQUEUE_FED',
  'RESV_DEL_HOLD',
  'SPECIAL_EXIT',
]);
const UNITS: Readonly<Record<string, number>> = { K: 1 / 1024, M: 1, G: 1024, T: 1024 ** 2 };
const COMMENT = 'longshore:';
/** Characters of a comment. */
const MAX_COMMENT = 1024;

export function hasEnded({ state }: SlurmJob): boolean {
  return ENDED.has(state);
}

/** Whether the job has no node yet. */
export function isWaiting({ state }: SlurmJob): boolean {
  return WAITING.has(state);
}

/** Name of the jobs of an attempt. Slurm allows several jobs of one name. */
export function jobName(deployment: string, key: JobKey): string {
  return `${deployment}.${attemptName(key)}`;
}

/**
 * Comment of a job: its worker, then name and labels of its run as in the query of a URL, which has neither `|` nor `;`. Pairs
 * that the comment has no room for are left out.
 */
export function jobComment(workerId: string, { name, labels }: Pick<JobSpec, 'name' | 'labels'>): string {
  const pairs = [...(name === null ? [] : [['name', name] as const]), ...Object.entries(labels)];
  let comment = `${COMMENT}${workerId}`;
  for (const [key, value] of pairs) {
    const text = new URLSearchParams({ [key]: value }).toString();
    if (comment.length + text.length < MAX_COMMENT) comment += `${comment.includes(';') ? '&' : ';'}${text}`;
  }
  return comment;
}

/** @param name `RUN.ATTEMPT`, as in names of jobs and folders; null: it is none */
export function parseAttemptName(name: string): JobKey | null {
  const [, runId, attempt] = /^([A-Za-z0-9_-]+)\.([1-9]\d{0,8})$/.exec(name) ?? [];
  return runId === undefined ? null : { runId, attempt: Number(attempt) };
}

/** Name of an attempt in names of jobs and folders. */
export function attemptName({ runId, attempt }: JobKey): string {
  return `${runId}.${attempt}`;
}

/** The jobs of the deployment among the lines of squeue. */
export function parseJobs(text: string, deployment: string): SlurmJob[] {
  return text.split('\n').flatMap((line) => {
    const [id = '', state = '', cpus = '', memory = '', gres = '', name = '', comment = '', ...reason] =
      line.split('|');
    const key = parseName(name, deployment);
    if (key === null || !/^\d+$/.test(id)) return [];
    return [
      {
        ...key,
        id,
        state,
        cpus: Number(cpus) || 0,
        ramMb: parseMemory(memory),
        gpus: parseGpus(gres),
        // Ids of workers have no semicolon.
        workerId: comment.startsWith(COMMENT) ? (comment.slice(COMMENT.length).split(';')[0] ?? '') : '',
        reason: parseReason(reason.join('|')),
      },
    ];
  });
}

function parseName(name: string, deployment: string): JobKey | null {
  if (!name.startsWith(`${deployment}.`)) return null;
  return parseAttemptName(name.slice(deployment.length + 1));
}

/** Such as `500M`, `2G` or `0`. */
function parseMemory(text: string): number {
  const [, number = '0', unit = 'M'] = /^([\d.]+)([KMGT])?/.exec(text) ?? [];
  return Math.round(Number(number) * (UNITS[unit] ?? 1));
}

/**
 * GPUs of a list of generic resources, such as `gres/gpu:a100:2`, `gpu:2(S:0-1)` or `gpu:2080ti:1(IDX:0)`.
 * @returns numbers by type; `gpu`: without a type
 */
export function parseGpus(list: string): Map<string, number> {
  const found = new Map<string, number>();
  for (const entry of list.replaceAll(/\([^)]*\)/g, '').split(',')) {
    const [kind, ...parts] = entry.replace(/^gres[/:]/, '').split(/[:=]/);
    if (kind !== 'gpu') continue;
    const last = parts.at(-1) ?? '';
    const isCounted = /^\d+$/.test(last);
    const [type = 'gpu'] = isCounted ? parts.slice(0, -1) : parts;
    found.set(type, (found.get(type) ?? 0) + (isCounted ? Number(last) : 1));
  }
  return found;
}

function parseReason(text: string): string {
  const reason = text.trim();
  return reason === 'None' || reason === '(null)' ? '' : reason;
}

/** States and flags of nodes that take no jobs. */
const UNUSABLE = new Set([
  'DOWN',
  'DRAIN',
  'DRAINED',
  'DRAINING',
  'ERROR',
  'FAIL',
  'FAILING',
  'FUTURE',
  'INVAL',
  'INVALID_REG',
  'MAINT',
  'MAINTENANCE',
  'NOT_RESPONDING',
  'RESERVED',
  'UNKNOWN',
]);

/** What is free on the nodes of the partitions. */
interface FreeResources {
  readonly cpus: number;
  readonly ramMb: number;
  /** By type; `gpu`: without a type. */
  readonly gpus: ReadonlyMap<string, number>;
}

/** @param text of `scontrol --details --oneliner show node` */
export function parseFree(text: string, partitions: readonly string[]): FreeResources {
  let cpus = 0;
  let ramMb = 0;
  const gpus = new Map<string, number>();
  for (const line of text.split('\n')) {
    const field = (name: string): string => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(line)?.[1] ?? '';
    const states = field('State').split('+');
    const isOurs = field('Partitions')
      .split(',')
      .some((name) => partitions.includes(name));
    if (!isOurs || states.some(isUnusable)) continue;
    const total = Number(field('CPUEfctv') || field('CPUTot')) || 0;
    cpus += Math.max(0, total - (Number(field('CPUAlloc')) || 0));
    ramMb += Math.max(0, (Number(field('RealMemory')) || 0) - (Number(field('AllocMem')) || 0));
    for (const [type, count] of parseGpus(field('Gres'))) gpus.set(type, (gpus.get(type) ?? 0) + count);
    for (const [type, count] of parseGpus(field('GresUsed'))) gpus.set(type, (gpus.get(type) ?? 0) - count);
  }
  return { cpus, ramMb, gpus };
}

/** A node that does not answer has a star behind its state. */
function isUnusable(state: string): boolean {
  return state.endsWith('*') || UNUSABLE.has(state.replace(/[^A-Z_]+$/, ''));
}

/**
 * What the jobs of a launcher could have: what is free, and what they hold.
 * @param vramByType the types of GPUs that runs may have
 */
export function capacityOf(
  free: FreeResources,
  jobs: readonly SlurmJob[],
  vramByType: ReadonlyMap<string, number>,
): Resources {
  const holding = jobs.filter((job) => !hasEnded(job) && !isWaiting(job));
  const sum = (of: (job: SlurmJob) => number): number => holding.reduce((total, job) => total + of(job), 0);
  const gpus: Gpu[] = [];
  for (const [type, vramMb] of vramByType) {
    const count = (free.gpus.get(type) ?? 0) + sum((job) => job.gpus.get(type) ?? 0);
    const tags = type === 'gpu' ? [] : [type];
    for (let index = 0; index < count; index += 1) gpus.push({ id: gpus.length, vramMb, tags });
  }
  return {
    cpuCores: free.cpus + sum(({ cpus }) => cpus),
    ramMb: free.ramMb + sum(({ ramMb }) => ramMb),
    gpus,
  };
}
