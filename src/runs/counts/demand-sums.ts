import type { Shape } from '../scheduling-strategy.js';

/** What a number of runs ask for together. */
export interface DemandSum extends Shape {
  readonly runs: number;
  /** Runs that ask for GPU memory; each takes it from one GPU. */
  readonly gpus: number;
}

/** What a run adds to each of the sums. */
const MEASURES = {
  runs: '1',
  cpu: 'cpu',
  ram_mb: 'ram_mb',
  vram_mb: 'vram_mb',
  gpus: 'sign(vram_mb)',
} as const;

type Stage = 'ready' | 'waiting' | 'in_execution';

/** The expression of each sum of the stage, over rows that have its number of runs of a shape. */
export function sumsOf(stage: Stage): { readonly name: string; readonly sum: string }[] {
  return Object.entries(MEASURES).map(([measure, each]) => ({
    name: `${stage}_${measure}`,
    sum: `coalesce(sum(${stage} * ${each}), 0)`,
  }));
}

/** Sums over pending runs, which `run_demand_sums` holds. */
export const PENDING_SUMS = [...sumsOf('ready'), ...sumsOf('waiting')];

/** A `DemandSum` of the columns of `sums s`. */
export function jsonSum(stage: Stage): string {
  return `json_build_object('runs', s.${stage}_runs, 'cpu', s.${stage}_cpu, 'ramMb', s.${stage}_ram_mb,
                                'vramMb', s.${stage}_vram_mb, 'gpus', s.${stage}_gpus)`;
}

export function addUp(a: DemandSum, b: DemandSum): DemandSum {
  return combine(a, b, 1);
}

export function minus(a: DemandSum, b: DemandSum): DemandSum {
  return combine(a, b, -1);
}

function combine(a: DemandSum, b: DemandSum, sign: 1 | -1): DemandSum {
  return {
    runs: a.runs + sign * b.runs,
    cpu: a.cpu + sign * b.cpu,
    ramMb: a.ramMb + sign * b.ramMb,
    vramMb: a.vramMb + sign * b.vramMb,
    gpus: a.gpus + sign * b.gpus,
  };
}
