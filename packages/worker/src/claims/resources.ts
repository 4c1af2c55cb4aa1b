import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { errorText } from '@longshore/common/errors';
import { oneLine } from '@longshore/common/shown-text';
import { SettingsError } from '@longshore/common/settings/setting';
import type { WorkerSettings } from '../settings/worker-settings.js';
import type { Gpu, Resources } from '../service-api/service-api.js';

const NVIDIA_SMI_TIMEOUT_MS = 10_000;
const BYTES_PER_MB = 2 ** 20;
const CPU_MAX_FILE = '/sys/fs/cgroup/cpu.max';

/** What nvidia-smi says of the GPUs of this machine. */
export interface GpuReading {
  /** Without it there are no GPUs, and never will be. */
  readonly isInstalled: boolean;
  readonly gpus: readonly Gpu[];
  /** Why there are none, in its words; null: it has answered. */
  readonly problem: string | null;
}

/** Detects CPU cores and memory within the control group's limits. @param gpus of the machine */
export async function detectResources({ gpus }: GpuReading): Promise<Resources> {
  const quota = parseCpuMax(await readFile(CPU_MAX_FILE, 'utf8').catch(() => 'max'));
  return {
    cpuCores: Math.max(1, Math.min(availableParallelism(), quota)),
    ramMb: usableRamMb(totalmem(), process.constrainedMemory()),
    gpus,
  };
}

/** What a worker offers of its machine; null: all. */
export type ResourceOffer = Pick<WorkerSettings, 'cpuCores' | 'ramMb' | 'gpuIds'>;

/**
 * The resources that the worker offers to runs. Cores and memory may be more than this machine has: the engine may be on
 * another one.
 * @param problem of nvidia-smi, while which its GPUs are not known; null: there is none
 * @throws SettingsError when the offer names a GPU that this machine does not have
 */
export function limitResources(
  found: Resources,
  { cpuCores, ramMb, gpuIds }: ResourceOffer,
  problem: string | null = null,
): Resources {
  const unknown = (gpuIds ?? []).filter((wanted) => !found.gpus.some(({ id }) => id === wanted));
  if (unknown.length > 0 && problem === null) {
    const known = found.gpus.map(({ id }) => id).join(', ') || 'none';
    throw new SettingsError([
      `SERVICE_WORKER_GPUS names GPUs that nvidia-smi does not show: ${unknown.join(', ')}; there are ${known}`,
    ]);
  }
  return {
    cpuCores: cpuCores ?? found.cpuCores,
    ramMb: ramMb ?? found.ramMb,
    gpus: found.gpus.filter(({ id }) => gpuIds === null || gpuIds.includes(id)),
  };
}

/**
 * Reads the CPU quota of a control group, `QUOTA PERIOD` or `max PERIOD`, as whole cores, rounded down.
 * @returns infinity when there is no limit
 */
export function parseCpuMax(text: string): number {
  const [quota, period] = text.trim().split(/\s+/).map(Number);
  if (quota === undefined || period === undefined || !(quota > 0) || !(period > 0)) return Infinity;
  return Math.floor(quota / period);
}

/** @param limit the control group's limit in bytes; without one, 0 or a value above `total` */
export function usableRamMb(total: number, limit: number): number {
  return Math.floor((limit > 0 ? Math.min(total, limit) : total) / BYTES_PER_MB);
}

/**
 * Reads nvidia-smi's lines `index, memory in MB, name`. The name becomes two tags: itself and its family, such as
 * `a100` of "NVIDIA A100-SXM4-80GB" or `rtx` of "NVIDIA GeForce RTX 4090". Other lines are ignored.
 */
export function parseGpus(csv: string): Gpu[] {
  const gpus = new Map<number, Gpu>();
  for (const line of csv.split('\n')) {
    const [index = '', memory = '', ...rest] = line.split(',').map((part) => part.trim());
    if (!/^\d{1,5}$/.test(index) || !/^\d{1,9}$/.test(memory)) continue;
    const id = Number(index);
    gpus.set(id, { id, vramMb: Number(memory), tags: gpuTags(rest.join(',')) });
  }
  return [...gpus.values()];
}

function gpuTags(name: string): string[] {
  const label = name
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, '-')
    .replace(/^-+|-+$/g, '');
  const family = label
    .split('-')
    .find((word) => !/^(?:nvidia|geforce|quadro|tesla|graphics|gpu)$/.test(word));
  return [...new Set([family, label])].filter((tag) => tag !== undefined && tag !== '').map(String);
}

/** Asks nvidia-smi. Never rejects. */
export function readGpus(): Promise<GpuReading> {
  const args = ['--query-gpu=index,memory.total,name', '--format=csv,noheader,nounits'];
  const limits = { timeout: NVIDIA_SMI_TIMEOUT_MS, killSignal: 'SIGKILL', maxBuffer: BYTES_PER_MB } as const;
  return new Promise((resolve) => {
    execFile('nvidia-smi', args, limits, (error, stdout, stderr) => {
      if (error === null) return resolve({ isInstalled: true, gpus: parseGpus(stdout), problem: null });
      const said = oneLine(`${stdout} ${stderr}`).trim();
      const problem = error.killed === true ? `no answer within ${NVIDIA_SMI_TIMEOUT_MS / 1000} s` : said;
      resolve({
        isInstalled: error.code !== 'ENOENT',
        gpus: [],
        problem: error.code === 'ENOENT' ? null : `nvidia-smi: ${problem || errorText(error)}`,
      });
    });
  });
}
