import type { JobSpec } from '../launcher/engine.js';
import { RunFault } from '@longshore/worker/runtime/runtime';
import type { SlurmSettings } from '@longshore/worker/settings/slurm-settings';

/**
 * Arguments of sbatch for the resources of an attempt.
 * @throws RunFault when the cluster has no such GPU
 */
export function sbatchArguments(
  { constraints, selector }: JobSpec,
  settings: SlurmSettings,
  partitions: readonly string[],
): string[] {
  const { account, qos, timeLimit, features, args } = settings;
  const { cpuMillis, ramMb } = constraints;
  const needed = selector.flatMap((tag) => features.get(tag) ?? []);
  return [
    '--no-requeue',
    // The few variables that sbatch gets itself. With NONE, the node would start a login shell of the user for each job.
    '--export=ALL',
    '--chdir=/',
    '--input=/dev/null',
    '--output=/dev/null',
    '--error=/dev/null',
    '--nodes=1',
    '--ntasks=1',
    ...(partitions.length > 0 ? [`--partition=${partitions.join(',')}`] : []),
    ...(cpuMillis > 0 ? [`--cpus-per-task=${Math.ceil(cpuMillis / 1000)}`] : []),
    ...(ramMb > 0 ? [`--mem=${ramMb}M`] : []),
    ...gpuArguments(constraints, settings.gpus),
    ...(needed.length > 0 ? [`--constraint=${[...new Set(needed)].join('&')}`] : []),
    ...(account === null ? [] : [`--account=${account}`]),
    ...(qos === null ? [] : [`--qos=${qos}`]),
    ...(timeLimit === null ? [] : [`--time=${timeLimit}`]),
    ...args,
  ];
}

/** GPUs of the smallest type that has the tags and enough memory. Slurm gives each to one job alone. */
function gpuArguments(
  { vramMb, gpus, gpuIds, gpuSelector }: JobSpec['constraints'],
  types: ReadonlyMap<string, number>,
): string[] {
  if (vramMb === 0 && gpus === 0 && gpuIds.length === 0) return [];
  const count = Math.max(1, gpus);
  const [type] = [...types]
    .filter(([name, memory]) => memory >= vramMb && gpuSelector.every((tag) => tag === name))
    .toSorted(([, one], [, other]) => one - other)
    .map(([name]) => name);
  if (type === undefined)
    throw new RunFault(
      `No GPU of SERVICE_WORKER_SLURM_GPUS has ${[`${vramMb} MB of memory`, ...gpuSelector.map((tag) => `the tag '${tag}'`)].join(' and ')}`,
    );
  return [`--gres=gpu:${type === 'gpu' ? '' : `${type}:`}${count}`];
}
