import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import type Dockerode from 'dockerode';
import { pack } from 'tar-stream';
import type { WorkerIdentity } from '../../process/worker-identity.js';
import { PROBE_COMMAND, probeOptions, type ProbeChoices } from './container/container-options.js';
import { removeContainer, type ContainerTiming } from './container/docker.container.js';
import { MachineUnable } from '../runtime.js';
import { checkCreated } from './container/created.js';
import { gpuWords, mayMeanGpus } from './engine/gpu-words.js';
import { engineMessage, withLimit } from './engine/docker-engine.js';

interface ProbeOptions extends WorkerIdentity, ProbeChoices {}

/**
 * Starts a container of an image that the worker makes itself, because no client must decide whether a probe succeeds, and
 * removes both. Its command does not exist, so nothing is executed: an engine that says so has set up storage, network and
 * limits.
 * @throws MachineUnable when the container lacks the GPUs
 * @throws Error with the words of the engine when it cannot start containers now
 */
export async function probeEngine(
  engine: Dockerode,
  options: ProbeOptions,
  timing: ContainerTiming,
): Promise<void> {
  const { startMs } = timing;
  try {
    await withProbeImage(engine, timing, async (image) => {
      const body = probeOptions(image, options, options);
      const container = await createContainer(engine, body, startMs);
      try {
        if (options.gpus !== undefined) await checkCreated(container, body, [], timing.callMs);
        await withLimit(startMs, 'start', (abortSignal) => container.start({ abortSignal }));
      } catch (error) {
        // An engine without its own programs has similar words.
        if (error instanceof MachineUnable || !engineMessage(error).includes(PROBE_COMMAND)) throw error;
      } finally {
        await removeContainer(container, timing);
      }
    });
  } catch (error) {
    if (error instanceof MachineUnable) throw error;
    throw new Error(engineMessage(error), { cause: error });
  }
}

/**
 * The same with GPUs.
 * @throws MachineUnable when the engine cannot give them to a container
 */
export async function probeGpus(
  engine: Dockerode,
  options: ProbeOptions,
  timing: ContainerTiming,
): Promise<void> {
  try {
    await probeEngine(engine, options, timing);
  } catch (error) {
    if (error instanceof MachineUnable || !(error instanceof Error && mayMeanGpus(error.cause))) throw error;
    const words = gpuWords(error.message);
    throw new MachineUnable('gpus', 'The machine cannot provide the GPU', words, { cause: error });
  }
}

/** Makes an image for the time of a task. @param task gets the id of the image, of which it leaves no container */
export async function withProbeImage(
  engine: Dockerode,
  { startMs, callMs }: ContainerTiming,
  task: (image: string) => Promise<void>,
): Promise<void> {
  const image = await importImage(engine, startMs);
  try {
    await task(image);
  } finally {
    await withLimit(callMs, 'image remove', () => engine.getImage(image).remove({ force: true }));
  }
}

/**
 * Creates a container that is never started, for the time of a task.
 * @param image its volumes must be at the targets of the mounts, or the engine makes folders for them
 */
export async function withUnstarted<T>(
  engine: Dockerode,
  { image, owner, mounts }: Unstarted,
  timing: ContainerTiming,
  task: (container: Dockerode.Container) => Promise<T>,
): Promise<T> {
  const { HostConfig, ...options } = probeOptions(image, owner);
  const body = { ...options, HostConfig: { ...HostConfig, NetworkMode: 'none', Mounts: [...mounts] } };
  const container = await createContainer(engine, body, timing.startMs);
  try {
    return await task(container);
  } finally {
    await removeContainer(container, timing);
  }
}

interface Unstarted {
  readonly image: string;
  readonly owner: WorkerIdentity;
  readonly mounts: readonly Dockerode.MountSettings[];
}

/** Creates a container. */
export function createContainer(
  engine: Dockerode,
  body: Dockerode.ContainerCreateOptions,
  limitMs: number,
  onWarnings: (warnings: readonly string[]) => void = () => undefined,
): Promise<Dockerode.Container> {
  return withLimit(limitMs, 'create', (abortSignal) => {
    // Otherwise the library repeats the body in the query. It drops the warnings of the answer.
    const options = { _query: {}, _body: body };
    const statusCodes = { 200: true, 201: true, 400: 'bad parameter', 404: 'no such container' };
    const call = { path: '/containers/create?', method: 'POST', options, abortSignal, statusCodes };
    return new Promise((resolve, reject) => {
      engine.modem.dial(call, (error: Error | null, answer: unknown) => {
        if (error) return reject(error);
        const { Id, Warnings } = Object(answer);
        if (Array.isArray(Warnings)) onWarnings(Warnings.map(String));
        resolve(engine.getContainer(String(Id)));
      });
    });
  });
}

/** @returns the id of an image with one small file: some engines refuse empty ones */
async function importImage(engine: Dockerode, limitMs: number): Promise<string> {
  const archive = pack();
  archive.entry({ name: 'longshore-probe.txt' }, 'An image of the Longshore worker.\n');
  archive.finalize();
  const content = Readable.from([await buffer(archive)]);
  const report = await withLimit(limitMs, 'import', async (abortSignal) =>
    text(await engine.importImage(content, { abortSignal })),
  );
  const id = /"(sha256:[0-9a-f]{64})"/.exec(report)?.[1];
  if (id === undefined) throw new Error(`the container engine did not import an image: ${report.trim()}`);
  return id;
}
