import { RunFault } from '../../runtime.js';
import { canonicalName, localName, parseImageReference, type ImageReference } from './image-reference.js';
import { idPart, isEmptyImage, MARKS, repositoryHash, type LocalImage } from './image-marks.js';
import type { ImageStore, ImageUses } from './image-store.js';

/** An image that is here and that the run does not get on this worker now. The message is fit for the run's error_message. */
export class ImageWithheld extends Error {}

/**
 * Who may use an image of the engine.
 * - `free`: every run
 * - `private`: a login for the same repository brought it, so a run whose pull its registry has allowed
 * - `foreign`: a login for another repository brought it. A registry could name the image in a manifest without having it, and
 *   the engine would not ask for what is already there.
 */
type Access = 'free' | 'private' | 'foreign';

interface RegistryRequests {
  /** Repeats the pull. */
  readonly pullAgain: () => Promise<void>;
  /** Rejects unless the registry gives the image, which the engine has, to the run. */
  readonly ask: () => Promise<void>;
}

/** Decides which run gets which image of the engine, by the marks that pulls leave. */
export class ImageAccess {
  private readonly name: string;
  private before: LocalImage | null = null;
  private wasFree = new Set<string>();
  private announced: string | null = null;
  private isPulled = false;

  /** @param login whether the run has a login for the registry */
  constructor(
    private readonly reference: ImageReference,
    private readonly login: boolean,
    private readonly store: ImageStore,
    private readonly uses: ImageUses,
  ) {
    this.name = canonicalName(reference);
  }

  /** Call it before the pull: what it marks holds also when the worker ends before the pull does. */
  async prepare(): Promise<void> {
    const { marks } = this.store;
    const images = await marks.list();
    const repositories = loginRepositories(images);
    const { name } = this;
    this.before = images.find(({ names }) => names.includes(name)) ?? null;
    const free = images.filter((image) => this.accessTo(image, repositories) === 'free');
    // Someone's login at the engine may have brought an image that has a name of this repository.
    const known = free.filter(
      (image) => image.marks.includes(freeMark(image)) || !this.isOfRepository(image),
    );
    this.wasFree = new Set(known.map(({ id }) => id));
    if (this.login) await marks.markNothing(`repository.${repositoryHash(this.reference)}`);
    this.announced = await this.store.announce(name, this.before);
  }

  /** Call it after a failed pull. Failures are left to the next sweep. */
  async cancel(): Promise<void> {
    if (this.announced !== null && this.before === null && !this.isPulled)
      await this.store.marks.unmark(this.announced).catch(() => undefined);
  }

  /**
   * What the run gets after its pull.
   * @returns the id of the image
   * @throws RunFault when it is not the image that the run names
   * @throws ImageWithheld when another run's login brought it, and its registry cannot be asked for it
   * @throws Error of the engine when the registry does not give it to the run
   */
  async accept({ pullAgain, ask }: RegistryRequests): Promise<string> {
    this.isPulled = true;
    const { marks } = this.store;
    let image = await this.pulled();
    const access = await this.accessNow(image);
    if (access === 'private') await ask();
    if (access === 'foreign') {
      // Without the image here, its registry has to provide it.
      if (!(await this.store.removeUnused(image.id, { except: this.name })))
        throw new ImageWithheld(
          `Image '${localName(this.reference)}' was not used: the worker has it from another repository, with the login of another run`,
        );
      this.wasFree.delete(image.id);
      await pullAgain();
      image = await this.pulled();
      if ((await this.accessNow(image)) === 'foreign')
        throw new ImageWithheld(
          `Image '${localName(this.reference)}' was pulled by another run at the same time`,
        );
    }
    const isFree = !this.login || (this.wasFree.has(image.id) && !image.marks.some(isPrivateMark));
    const mark = isFree ? freeMark(image) : privateMark(image, this.reference);
    const isKnown = image.marks.includes(mark) || (isFree && image.marks.some(isPrivateMark));
    if (!isKnown) await marks.mark(image.id, mark);
    return image.id;
  }

  /** The image that every run may use without asking a registry. @returns its id, or null */
  async free(): Promise<string | null> {
    const images = await this.store.marks.list();
    const image = images.find(({ names }) => names.includes(this.name));
    if (image === undefined || this.accessTo(image, loginRepositories(images)) !== 'free') return null;
    this.uses.learn(this.name, image.id);
    return image.id;
  }

  /** The image under the name of the run, which is recorded as used. */
  private async pulled(): Promise<LocalImage> {
    const image = await this.store.marks.find(localName(this.reference));
    if (image === null)
      throw new ImageWithheld(`Image '${localName(this.reference)}' was removed after its pull`);
    if (!image.names.includes(this.name) || isEmptyImage(image)) {
      const message = `'${localName(this.reference)}' is not the name of an image`;
      throw new RunFault(message, { reported: 'image' });
    }
    await this.store.recordUse(this.name, image, this.before, this.announced);
    return image;
  }

  private async accessNow(image: LocalImage): Promise<Access> {
    const access = this.accessTo(image, loginRepositories(await this.store.marks.list()));
    if (access !== 'foreign') this.uses.learn(this.name, image.id);
    return access;
  }

  private isOfRepository(image: LocalImage): boolean {
    return repositoriesOf(image).includes(repositoryHash(this.reference));
  }

  private accessTo(image: LocalImage, repositories: ReadonlySet<string>): Access {
    const { marks } = image;
    if (marks.includes(freeMark(image))) return 'free';
    if (marks.includes(privateMark(image, this.reference))) return 'private';
    const own = repositoryHash(this.reference);
    const withLogin = repositoriesOf(image).filter((repository) => repositories.has(repository));
    if (marks.some(isPrivateMark) || withLogin.some((repository) => repository !== own)) return 'foreign';
    return withLogin.length > 0 ? 'private' : 'free';
  }
}

/** Hashes of the repositories in the names of an image. */
function repositoriesOf({ names }: LocalImage): string[] {
  return [...new Set(names.map((name) => repositoryHash(parseImageReference(name))))];
}

function freeMark(image: LocalImage): string {
  return `free.${idPart(image)}`;
}

/** Whether a reference is one of the worker's marks, which no run may use. */
export function isMarkName({ path }: ImageReference): boolean {
  return path === MARKS || path === `library/${MARKS}`;
}

function privateMark(image: LocalImage, reference: ImageReference): string {
  return `private.${idPart(image)}.${repositoryHash(reference)}`;
}

function isPrivateMark(mark: string): boolean {
  return mark.startsWith('private.');
}

/** Repositories for which a login was used, by their hashes. */
function loginRepositories(images: readonly LocalImage[]): Set<string> {
  const marks = images.filter(isEmptyImage).flatMap((image) => image.marks);
  return new Set(marks.flatMap((mark) => /^repository\.(.+)$/.exec(mark)?.[1] ?? []));
}
