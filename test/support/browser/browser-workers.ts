import type { RunSteps } from '../runs/run-steps.js';

const FAMILIES = ['a100', 'l40s', 't4'] as const;

/** Registers workers of several kinds: with and without GPUs, with runs on every third. @returns their ids */
export async function registerWorkers(steps: RunSteps, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i += 1) {
    const id = `worker-${i + 1}`;
    ids.push(id);
    await steps.heartbeat(id, {
      resources: {
        cpu_cores: 8 << (i % 4),
        ram_mb: 16_384 << (i % 4),
        gpus: Array.from({ length: [0, 1, 2, 4, 8][i % 5] ?? 0 }, (_, gpu) => ({
          id: gpu,
          vram_mb: 40_960,
          tags: [FAMILIES[i % 3] ?? 't4'],
        })),
      },
      tags: [`zone-${(i % 3) + 1}`, FAMILIES[i % 3] ?? 't4'],
    });
  }
  return ids;
}

/** Lets a worker report that it executes runs of these ids. */
export async function reportRuns(steps: RunSteps, worker: string, ids: readonly string[]): Promise<void> {
  await steps.heartbeat(worker, {
    resources: { cpu_cores: 16, ram_mb: 32_768, gpus: [{ id: 0, vram_mb: 40_960, tags: ['a100'] }] },
    tags: ['zone-1'],
    running_ops: ids.map((id) => ({ id, image: 'examples/train:latest', inputs: {}, constraints: {} })),
  });
}
