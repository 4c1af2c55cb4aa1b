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
  const { cpu, ramMb } = constraints;
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
    ...(cpu > 0 ? [`--cpus-per-task=${Math.ceil(cpu)}`] : []),
    ...(ramMb > 0 ? [`--mem=${Math.ceil(ramMb)}M`] : []),
    ...gpuArguments(constraints, settings.gpus),
    ...(needed.length > 0 ? [`--constraint=${[...new Set(needed)].join('&')}`] : []),
    ...(account === null ? [] : [`--account=${account}`]),
    ...(qos === null ? [] : [`--qos=${qos}`]),
    ...(timeLimit === null ? [] : [`--time=${timeLimit}`]),
    ...args,
  ];
}

/** One GPU of the smallest type that has enough memory. */
function gpuArguments(
  { vramMb, gpuId }: JobSpec['constraints'],
  types: ReadonlyMap<string, number>,
): string[] {
  if (vramMb === 0 && gpuId === null) return [];
  const [type] = [...types]
    .filter(([, memory]) => memory >= vramMb)
    .toSorted(([, one], [, other]) => one - other)
    .map(([name]) => name);
  if (type === undefined)
    throw new RunFault(`No GPU of SERVICE_WORKER_SLURM_GPUS has ${vramMb} MB of memory`);
  return [type === 'gpu' ? '--gres=gpu:1' : `--gres=gpu:${type}:1`];
}
