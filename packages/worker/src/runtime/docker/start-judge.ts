import { SecretMask } from '../../secrets/secret-mask.js';
import { MachineUnable, usesGpus, type ContainerSpec, type Runtime, type RuntimeLog } from '../runtime.js';
import { fileHint } from '../file-hint.js';
import { engineMessage } from './engine/docker-engine.js';
import { faultOf, startVerdict } from './engine/engine-verdict.js';
import { mayMeanGpus, wantsOtherDriver } from './engine/gpu-words.js';

interface StartFailure {
  /** What the container was not. */
  readonly what: string;
  /** Whether the engine started another container after this one failed. */
  readonly isProven: boolean;
  readonly runtime: Pick<Runtime, 'probe' | 'probeGpus'>;
  readonly log: RuntimeLog;
}

/**
 * Whose fault it is that a container was not created or started. The words of the engine go to the log, the reason to the run.
 * @returns null: the engine can start containers; whether it can start this one is not known
 * @throws RunFault, MachineUnable, EngineFault, or Error when this machine cannot start it
 */
export async function judgeStart(
  error: unknown,
  { runId, env, limits, files, command }: ContainerSpec,
  { what, isProven, runtime, log }: StartFailure,
): Promise<null> {
  const words = engineMessage(error, SecretMask.of(env));
  log.warn({ run: runId, error: words }, `container not ${what}`);
  const hint = fileHint(files, [...(command ?? []), words]);
  const message = (reason: string): string =>
    `The container could not be ${what}: ${reason}${hint === null ? '' : `. ${hint}`}`;
  if (usesGpus(limits) && mayMeanGpus(error) && !wantsOtherDriver(error)) {
    const problem = await gpuProblem(runtime, limits.gpuIds);
    if (problem !== null)
      throw new MachineUnable('gpus', message('the machine cannot provide the GPU'), problem, {
        cause: error,
      });
  }
  const { blame, reason } = startVerdict(error, limits);
  if (blame !== 'unproven') throw faultOf(blame, message(reason), error);
  if (isProven) throw faultOf('run', message(reason), error);
  try {
    await runtime.probe();
  } catch (cause) {
    log.warn({ error: engineMessage(cause) }, 'the container engine cannot start a probe either');
    throw faultOf('engine', message(reason), error);
  }
  return null;
}

/** Why not even a container of the worker's own gets these GPUs; null: it does, or that is not known. */
async function gpuProblem(
  runtime: Pick<Runtime, 'probeGpus'>,
  ids: readonly number[],
): Promise<string | null> {
  try {
    await runtime.probeGpus(ids);
    return null;
  } catch (error) {
    return error instanceof MachineUnable ? error.words : null;
  }
}
