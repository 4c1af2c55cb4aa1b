import type { DemandSum } from '../../runs/counts/demand-sums.js';
import type { RunNumbers } from '../../runs/counts/run-demand.reader.js';
import type { DemandNumbersDto, DemandSumDto } from './capacity.dto.js';

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

export function toNumbersDto({ ready, waiting, inExecution }: RunNumbers): DemandNumbersDto {
  return { pending: ready + waiting, ready, waiting, in_execution: inExecution };
}

export function toSumDto({ runs, cpu, ramMb, vramMb, gpus }: DemandSum): DemandSumDto {
  return { runs, cpu, ram_mb: ramMb, vram_mb: vramMb, gpus };
}
