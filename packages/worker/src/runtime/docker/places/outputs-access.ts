import type Dockerode from 'dockerode';
import { CONTAINER_FOLDER } from '../../container-places.js';
import type { Adoption } from '../../runtime.js';
import { engineMessage, withLimit } from '../engine/docker-engine.js';
import { hasVolume, mountedFolders } from './place-rules.js';

/** Gives a container in which the outputs and other files of a run can be read to a task, after the end of the one that wrote them. */
export type WithOutputs = <T>(task: (container: Dockerode.Container) => Promise<T>) => Promise<T>;

/** Gives a container that is never started, with mounts of its own, to a task. */
export type WithUnstarted = <T>(
  mounts: readonly Dockerode.MountSettings[],
  task: (container: Dockerode.Container) => Promise<T>,
) => Promise<T>;

/**
 * To read files of a container the engine mounts on its host what the container mounts, by paths that the program may have
 * replaced by links. Without volumes that is harmless. What else changes a volume could lead these mounts out of it, so the
 * outputs of such a container are in a volume of their own, which another container mounts, whose files nobody changes.
 * @param limitMs of a call, in milliseconds
 */
export function outputsAccess(
  container: Dockerode.Container,
  { mounts, folders }: Pick<Adoption, 'mounts' | 'folders'>,
  limitMs: number,
  withUnstarted: WithUnstarted,
): WithOutputs {
  if (!hasVolume(mounts)) return (task) => task(container);
  return async (task) => {
    let isOpen = false;
    try {
      const { Mounts } = await withLimit(limitMs, 'inspect', (abortSignal) =>
        container.inspect({ abortSignal }),
      );
      const own = [CONTAINER_FOLDER, ...mountedFolders(mounts, folders)].map((target) => {
        const name = Mounts.find(({ Destination }) => Destination === target)?.Name;
        if (name === undefined) throw new Error(`the container has no volume for '${target}'`);
        return ownVolume(name, target);
      });
      return await withUnstarted(own, (reader) => {
        isOpen = true;
        return task(reader);
      });
    } catch (error) {
      // Only what the engine answers to the task says something about the outputs.
      throw isOpen ? error : new Error(engineMessage(error), { cause: error });
    }
  };
}

function ownVolume(Source: string, Target: string): Dockerode.MountSettings {
  const VolumeOptions = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } };
  return { Type: 'volume', Source, Target, ReadOnly: true, VolumeOptions };
}
