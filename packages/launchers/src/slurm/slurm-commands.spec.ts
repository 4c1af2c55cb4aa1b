import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { EngineFault, RunFault } from '@longshore/worker/runtime/runtime';
import { LimitRefusal, refusalOf } from './slurm-commands.js';

/** What every version of sbatch says of limits; newer ones put the name of the limit before it. */
const POLICY =
  "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";

describe('a refusal of sbatch', () => {
  for (const problem of [
    'Batch job submission failed: Requested node configuration is not available',
    'Batch job submission failed: Memory required by task is not available',
    `QOSMaxCpuPerJobLimit ${POLICY}`,
    `QOSMaxMemoryPerUser ${POLICY}`,
    `QOSGrpGRES ${POLICY}`,
    `QOSMinGRES ${POLICY}`,
    `MaxMemPerLimit ${POLICY}`,
    `AssocMaxCpuMinutesPerJobLimit ${POLICY}`,
  ])
    test(`that names what the run asks for fails the run: ${problem.slice(0, 60)}`, () => {
      assert.ok(refusalOf(problem) instanceof RunFault);
    });

  for (const problem of [
    'Unable to contact slurm controller (connect failure)',
    'Batch job submission failed: Invalid account or account/partition combination specified',
    `QOSMaxSubmitJobPerUserLimit ${POLICY}`,
    `AssocGrpSubmitJobsLimit ${POLICY}`,
    `MaxSubmitJobsPerAccount ${POLICY}`,
    `QOSMaxWallDurationPerJobLimit ${POLICY}`,
  ])
    test(`that every run would meet now is a fault of the engine: ${problem.slice(0, 60)}`, () => {
      const fault = refusalOf(problem);
      assert.ok(fault instanceof EngineFault && !(fault instanceof LimitRefusal));
    });

  for (const problem of [POLICY, `QOSGrpCPUMinutesLimit ${POLICY}`])
    test(`that leaves open which limit it was is told apart: ${problem.slice(0, 60)}`, () => {
      const fault = refusalOf(problem);
      assert.ok(fault instanceof LimitRefusal && fault.name === 'EngineFault');
    });
});
