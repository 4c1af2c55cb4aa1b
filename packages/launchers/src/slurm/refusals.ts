import { EngineFault, RunFault } from '@longshore/worker/runtime/runtime';

/** Refusals of sbatch that a job of the same run gets from every launcher of the cluster. */
const ABOUT_THE_RUN =
  /Requested node configuration is not available|Memory specification can not be satisfied|Memory required by task is not available|CPU count per node can not be satisfied|More processors requested than permitted|Invalid generic resource|Invalid feature specification|Invalid job constraint|Unable to satisfy the requested constraint|Invalid Trackable RESource|Requested GRES option unsupported/i;

/**
 * What sbatch says of every limit of an account or a QOS. Newer versions put the limit's name before it, such as
 * `QOSMaxCpuPerJobLimit`. At a submission, Slurm compares limits of resources with the job alone, not with what others use.
 */
const LIMIT = /(?:\b(?<name>(?:QOS|Assoc|Max)\w+)\s.*)?Job violates accounting\/QOS policy/;

/** Names of limits of what a job asks for. Those of Grp..Minutes also count what was used before. */
const OF_RESOURCES = /(?:CPU|Mem|GRES|Billing)(?!\w*Minutes)|MinutesPerJob/i;

/** Names of limits of the number of jobs, and of the time limit, which is a setting of the launcher. */
const OF_ALL_RUNS = /Submit|Wall/;

/** A limit refuses the job, and Slurm does not say whether for what the job asks for or for the number of jobs. */
export class LimitRefusal extends EngineFault {}

/** @param problem what sbatch said */
export function refusalOf(problem: string): RunFault | EngineFault {
  const limit = LIMIT.exec(problem);
  const name = limit?.groups?.['name'] ?? '';
  if (ABOUT_THE_RUN.test(problem) || OF_RESOURCES.test(name))
    return new RunFault(`Slurm refused the job: ${problem}`);
  const text = `Slurm did not take the job: ${problem}`;
  return limit === null || OF_ALL_RUNS.test(name) ? new EngineFault(text) : new LimitRefusal(text);
}
