import type Dockerode from 'dockerode';
import { RunFault, type ContainerSpec } from '../../runtime.js';
import { withLimit } from '../engine/docker-engine.js';
import type { Found, Lookup } from './follow.js';
import { lookupIn } from './look-up.js';
import { checkPlaces, type ImageWishes, type WorkingDirectory } from './place-rules.js';
import { accountVariables, readAccount, type Account } from './user-account.js';

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
  /** Names of its variables. */
  readonly variables: ReadonlySet<string>;
  /** What it says of users, by their numbers, as far as they were looked up. */
  readonly accounts: Map<number, Account>;
}

/** Gives a container of the image, in which nothing is mounted, to a task. */
export type WithContainer = <T>(task: (container: Dockerode.Container) => Promise<T>) => Promise<T>;

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
    const { Volumes, WorkingDir, Env }: Record<string, unknown> = Object(Config);
    const volumes = Object.keys(Object(Volumes));
    const workdir = typeof WorkingDir === 'string' ? WorkingDir : '';
    if (volumes.length > MAX_VOLUMES || [...volumes, workdir].some(({ length }) => length > MAX_LENGTH))
      throw new RunFault('The image has too many volumes (VOLUME), or too long a path in VOLUME or WORKDIR');
    const pairs = Array.isArray(Env) ? Env.map(String) : [];
    const variables = new Set(pairs.map((pair) => pair.split('=', 1).join()));
    const fresh = { volumes, workdir, variables, paths: new Map(), accounts: new Map() };
    return this.remember(Id, this.images.get(Id) ?? fresh);
  }

  /**
   * The variables that a container gets for a user other than root whom its image may not know: HOME, USER, LOGNAME.
   * @param open is called only when the user is not known yet
   * @throws Error of the engine
   */
  async findAccount(
    { user, env }: Pick<ContainerSpec, 'user' | 'env'>,
    { accounts, variables }: KnownImage,
    open: WithContainer,
  ): Promise<Readonly<Record<string, string>>> {
    const uid = Number.parseInt(user ?? '0', 10);
    if (uid === 0) return {};
    const account = accounts.get(uid) ?? (await open((container) => this.lookUpAccount(container, uid)));
    if (accounts.size >= MAX_PATHS) accounts.clear();
    accounts.set(uid, account);
    return accountVariables(uid, account, (name) => Object.hasOwn(env, name) || variables.has(name));
  }

  /**
   * @param open is called only when something is not known yet
   * @throws RunFault when something may not be where it is wanted
   * @throws Error of the engine
   */
  async check(
    wanted: Pick<ContainerSpec, 'mounts' | 'files' | 'workdir'>,
    image: KnownImage,
    open: WithContainer,
  ): Promise<WorkingDirectory> {
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
  ): Promise<WorkingDirectory> {
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

  private lookUpAccount(container: Dockerode.Container, uid: number): Promise<Account> {
    const { callMs, startMs } = this.limits;
    return withLimit(startMs, 'archive', (signal) =>
      readAccount(container, uid, lookupIn(container, callMs), signal),
    );
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
