import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { EngineFault, NOTHING_READ, type AdoptedContainer, type Adoption } from '../runtime.js';
import { QUERIES_LABEL, SECRETS_LABEL } from './container/container-options.js';
import { DockerContainer, type DockerContainerOptions } from './container/docker.container.js';
import { readCursor } from './container/output-cursor.js';
import { engineMessage, engineStatus, withLimit } from './engine/docker-engine.js';
import { onlyFile } from './places/only-file.js';
import { outputsAccess, type WithUnstarted } from './places/outputs-access.js';
import { hasVolume } from './places/place-rules.js';

/** No value of a secret is larger, in bytes. */
const MAX_SECRET_BYTES = 1024 * 1024;

type Described = Dockerode.ContainerInspectInfo;

interface AdoptionParts extends Pick<DockerContainerOptions, 'engine' | 'timing' | 'log' | 'onRemoved'> {
  /** Whether the engine keeps a log of containers. */
  readonly readHasLog: () => Promise<boolean>;
  /** @param image that the container has */
  readonly looking: (image: string) => WithUnstarted;
}

/** Follows a container that an earlier process has started. @throws Error when the engine does not have it, EngineFault when it does not answer */
export async function adoptContainer(
  container: Dockerode.Container,
  adoption: Adoption,
  { looking, readHasLog, ...parts }: AdoptionParts,
): Promise<AdoptedContainer> {
  const { timing } = parts;
  const described = await untilAnswered(timing, () =>
    withLimit(timing.callMs, 'inspect', (abortSignal) => container.inspect({ abortSignal })),
  );
  const hasLog = await untilAnswered(timing, readHasLog);
  const earlier = adoption.cursor === undefined ? null : readCursor(adoption.cursor);
  const withOutputs = outputsAccess(container, adoption, timing.callMs, looking(described.Image));
  return {
    container: new DockerContainer(container, {
      ...parts,
      hasLog,
      attached: null,
      earlier,
      warnings: [],
      hasEnded: !described.State.Running,
      withOutputs,
    }),
    secrets: { ...secretVariables(described), ...(await secretFiles(container, adoption, timing.callMs)) },
    signedQueries: queriesOf(described),
    stored: earlier?.ends ?? NOTHING_READ,
  };
}

/** Repeats a call while the engine does not answer. @throws EngineFault when it does not for long */
async function untilAnswered<T>(
  { retryMs, outageMs }: DockerContainerOptions['timing'],
  call: () => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + outageMs;
  for (let pauseMs = retryMs; ; pauseMs = Math.min(pauseMs * 2, retryMs * 16)) {
    try {
      return await call();
    } catch (error) {
      if (engineStatus(error) === 404) throw new Error('The container is gone', { cause: error });
      if (performance.now() > deadline)
        throw new EngineFault(`the container engine does not show the container: ${engineMessage(error)}`);
    }
    await sleep(pauseMs);
  }
}

function queriesOf({ Config }: Described): string[] {
  const { [QUERIES_LABEL]: text = '[]' } = Config.Labels;
  const queries: unknown = JSON.parse(text);
  return Array.isArray(queries) ? queries.map(String) : [];
}

function secretVariables({ Config }: Described): Record<string, string> {
  const names = new Set(Config.Labels[SECRETS_LABEL]?.split(','));
  const pairs = Config.Env.map((pair) => {
    const at = pair.indexOf('=');
    return [pair.slice(0, at), pair.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs.filter(([name]) => names.has(name)));
}

/**
 * What is left of the files. To read one, the engine would mount volumes, by paths that the program could change: see
 * `outputs-access.ts`.
 */
async function secretFiles(
  container: Dockerode.Container,
  { secretFiles: paths, mounts }: Adoption,
  limitMs: number,
): Promise<Record<string, Buffer>> {
  const found: Record<string, Buffer> = {};
  for (const path of hasVolume(mounts) ? [] : paths) {
    try {
      const archive = await withLimit(limitMs, 'archive', (abortSignal) =>
        container.getArchive({ path, abortSignal }),
      );
      found[path] = await onlyFile(archive, MAX_SECRET_BYTES, (why) => new Error(why));
    } catch {
      // The program may have removed it. The service has its value.
    }
  }
  return found;
}
