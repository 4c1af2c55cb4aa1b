import type Dockerode from 'dockerode';
import { RunFault, type ContainerSpec } from '../../runtime.js';
import { withLimit } from '../engine/docker-engine.js';
import type { Found, Lookup } from './follow.js';
import { lookupIn } from './look-up.js';
import { checkPlaces, type ImageWishes } from './place-rules.js';

/** How many images, and paths of each, are remembered. */
const MAX_IMAGES = 100;
const MAX_PATHS = 200;

/** What an image may say. The kernel takes no longer path. */
const MAX_VOLUMES = 100;
const MAX_LENGTH = 4_095;

/** An image, which never changes under its id. */
export interface KnownImage extends ImageWishes {
  /** What is at its paths, as far as they were looked up. */
  readonly paths: Map<string, Found>;
}

/** Gives a container of the image, in which nothing is mounted, to a task. */
type WithContainer = (task: (container: Dockerode.Container) => Promise<string>) => Promise<string>;

/** Looks into images before containers of them are filled and started, once for each path of an image. */
export class ImagePlaces {
  /** By their ids; those that were used last are at the end. */
  private readonly images = new Map<string, KnownImage>();

  constructor(private readonly limits: { readonly callMs: number; readonly startMs: number }) {}

  /** @param image a name, or better the id. @throws Error of the engine, also when there is no such image */
  async find(engine: Dockerode, image: string): Promise<KnownImage> {
    const known = this.images.get(image);
    if (known !== undefined) return this.remember(image, known);
    const { Id, Config } = await withLimit(this.limits.callMs, 'image inspect', () =>
      engine.getImage(image).inspect(),
    );
    const { Volumes, WorkingDir }: { Volumes?: unknown; WorkingDir?: unknown } = Object(Config);
    const volumes = Object.keys(Object(Volumes));
    const workdir = typeof WorkingDir === 'string' ? WorkingDir : '';
    if (volumes.length > MAX_VOLUMES || [...volumes, workdir].some(({ length }) => length > MAX_LENGTH))
      throw new RunFault('The image has too many volumes (VOLUME), or too long a path in VOLUME or WORKDIR');
    return this.remember(Id, this.images.get(Id) ?? { volumes, workdir, paths: new Map() });
  }

  /**
   * @param open is called only when something is not known yet
   * @returns the working directory, without links of the image
   * @throws RunFault when something may not be where it is wanted
   * @throws Error of the engine
   */
  async check(
    wanted: Pick<ContainerSpec, 'mounts' | 'files' | 'workdir'>,
    image: KnownImage,
    open: WithContainer,
  ): Promise<string> {
    try {
      return await checkPlaces(wanted, image, (path) => knownOf(image, path));
    } catch (error) {
      if (!(error instanceof NotLookedUp)) throw error;
      return open((container) => this.look(container, wanted, image));
    }
  }

  private async look(
    container: Dockerode.Container,
    wanted: Pick<ContainerSpec, 'mounts' | 'files' | 'workdir'>,
    image: KnownImage,
  ): Promise<string> {
    const { callMs, startMs } = this.limits;
    const lookup = lookupIn(container, callMs);
    const found = new Map<string, Promise<Found>>();
    const once: Lookup = (path) => {
      const known = image.paths.get(path);
      if (known !== undefined) return Promise.resolve(known);
      const asked = found.get(path) ?? lookup(path);
      found.set(path, asked);
      return asked;
    };
    const workdir = await withLimit(startMs, 'archive', () => checkPlaces(wanted, image, once));
    // Otherwise nothing was there because the container was gone.
    if ((await lookup('/')).kind !== 'folder') throw new Error('the container that was looked into is gone');
    if (image.paths.size + found.size > MAX_PATHS) image.paths.clear();
    if (found.size <= MAX_PATHS) for (const [path, asked] of found) image.paths.set(path, await asked);
    return workdir;
  }

  private remember(id: string, image: KnownImage): KnownImage {
    this.images.delete(id);
    this.images.set(id, image);
    const [oldest] = this.images.keys();
    if (this.images.size > MAX_IMAGES && oldest !== undefined) this.images.delete(oldest);
    return image;
  }
}

class NotLookedUp extends Error {}

async function knownOf({ paths }: KnownImage, path: string): Promise<Found> {
  const found = paths.get(path);
  if (found === undefined) throw new NotLookedUp();
  return found;
}
