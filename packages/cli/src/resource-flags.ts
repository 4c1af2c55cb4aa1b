import { type Command, InvalidArgumentError, Option } from 'commander';
import { integerOption } from './command-kit.js';
import { tags } from './run-options.js';

const MOST = 2 ** 31 - 1;
const MOST_GPUS = 64;

/** Flags for the resources of a run; CPU in thousandths of a core. */
export interface ResourceFlags {
  readonly cpu?: number;
  readonly cpuLimit?: number;
  readonly ramMb?: number;
  readonly shmMb?: number;
  readonly vramMb?: number;
  readonly gpus?: number;
  readonly gpuTag?: readonly string[];
}

/** Adds the flags. */
export function takesResourceFlags(command: Command): Command {
  return command
    .addOption(new Option('--cpu <cores>', 'cores that it needs, such as 2 or 0.5').argParser(millis))
    .addOption(
      new Option(
        '--cpu-limit <cores>',
        'cores that it may use at most; 0: no limit (default: as many as it needs)',
      ).argParser(millis),
    )
    .addOption(integerOption('--ram-mb <n>', 'RAM that it needs', 0, MOST))
    .addOption(integerOption('--shm-mb <n>', 'size of /dev/shm (default: that of its RAM)', 1, MOST))
    .addOption(
      integerOption('--vram-mb <n>', 'GPU memory that it needs: of one GPU, or of each of --gpus', 0, MOST),
    )
    .addOption(integerOption('--gpus <n>', 'whole GPUs of one machine that it has alone', 0, MOST_GPUS))
    .option('--gpu-tag <tag>', 'only GPUs with this tag; a list is separated by commas', tags);
}

/** The member of a request that the flags give: whole cores as interface.md has them. */
export function readConstraints(flags: ResourceFlags) {
  const { cpu, cpuLimit, ramMb, shmMb, vramMb, gpus, gpuTag } = flags;
  const isWhole = cpu !== undefined && cpu % 1000 === 0;
  return {
    cpu: isWhole ? cpu / 1000 : undefined,
    cpu_millis: isWhole ? undefined : cpu,
    cpu_limit_millis: cpuLimit,
    ram_mb: ramMb,
    shm_mb: shmMb,
    vram_mb: vramMb,
    gpus,
    gpu_selector: gpuTag,
  };
}

/** Reads cores as thousandths. @throws InvalidArgumentError */
function millis(text: string): number {
  const value = /^\d{1,10}(?:\.\d{1,3})?$/.test(text) ? Math.round(Number(text) * 1000) : Number.NaN;
  if (value <= MOST) return value;
  throw new InvalidArgumentError('It must be a number of cores with at most three digits after the point.');
}
