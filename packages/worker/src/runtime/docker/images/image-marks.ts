import { createHash } from 'node:crypto';
import { pack } from 'tar-stream';
import type Dockerode from 'dockerode';
import { engineStatus, withLimit } from '../engine/docker-engine.js';
import {
  canonicalName,
  canonicalRepository,
  parseImageReference,
  type ImageReference,
} from './image-reference.js';

/**
 * Repository of the names by which a worker marks images. They are kept by the engine, so that they outlive the worker, hold for
 * all workers of the engine, and go with the image:
 *
 * - `empty`: an image without content, which has the marks that belong to no image,
 * - `repository.HASH`: a login was used for this repository,
 * - `private.ID.HASH`: a login for this repository brought the image,
 * - `free.ID`: its registry gave the image without a login,
 * - `pulled.HASH.SECONDS`: a worker pulled the image by the name with this hash, and used it last at this time.
 */
export const MARKS = 'longshore-image';

const EMPTY = 'empty';
/** Timeout of a call about images, in milliseconds. */
export const CALL_MS = 30_000;

/** An image of the engine. */
export interface LocalImage {
  readonly id: string;
  /** Names and digests, complete; marks are not among them. */
  readonly names: readonly string[];
  /** Tags of its marks. */
  readonly marks: readonly string[];
  /** In bytes; layers that it shares with other images count. */
  readonly size: number;
}

/** The images of an engine with the marks of workers. */
export class ImageMarks {
  constructor(private readonly engine: Dockerode) {}

  async list(): Promise<LocalImage[]> {
    const found = await withLimit(CALL_MS, 'images', (abortSignal) =>
      this.engine.listImages({ abortSignal }),
    );
    return found.map((image) => toLocalImage(image));
  }

  /** @returns null when there is no image of that name or id */
  async find(name: string): Promise<LocalImage | null> {
    try {
      return toLocalImage(
        await withLimit(CALL_MS, 'image inspect', () => this.engine.getImage(name).inspect()),
      );
    } catch (error) {
      if (engineStatus(error) === 404) return null;
      throw error;
    }
  }

  /** Gives an image a mark, which another image may have had. */
  async mark(image: string, tag: string): Promise<void> {
    await withLimit(CALL_MS, 'image tag', (abortSignal) =>
      this.engine.getImage(image).tag({ repo: MARKS, tag, abortSignal }),
    );
  }

  /** Sets a mark that belongs to no image yet. */
  async markNothing(tag: string): Promise<void> {
    const empty = `${MARKS}:${EMPTY}`;
    if ((await this.find(empty)) === null) await this.createEmpty();
    await this.mark(empty, tag);
  }

  /** Takes a mark away, if it is there. */
  async unmark(tag: string): Promise<void> {
    await this.remove(`${MARKS}:${tag}`, false);
  }

  /** Removes an image with all of its names, unless a running container has it. */
  async removeImage(id: string): Promise<boolean> {
    return this.remove(id, true);
  }

  /** @returns whether it is gone; false: the engine refuses, because it is in use */
  private async remove(name: string, force: boolean): Promise<boolean> {
    try {
      await withLimit(CALL_MS * 4, 'image remove', (abortSignal) =>
        this.engine.getImage(name).remove({ force, abortSignal }),
      );
      return true;
    } catch (error) {
      const status = engineStatus(error);
      if (status !== 404 && status !== 409) throw error;
      return status === 404;
    }
  }

  private async createEmpty(): Promise<void> {
    const archive = pack();
    archive.finalize();
    await withLimit(CALL_MS, 'image import', async () => {
      const report = await this.engine.importImage(archive, { repo: MARKS, tag: EMPTY });
      for await (const piece of report) void piece;
    });
  }
}

/** Whether it is the image of the marks that belong to no other. */
export function isEmptyImage({ marks }: LocalImage): boolean {
  return marks.includes(EMPTY);
}

/** The part of a mark that stands for a repository. */
export function repositoryHash(reference: ImageReference): string {
  return hash(canonicalRepository(reference).toLowerCase());
}

/** The part of a mark that stands for a name of an image. */
export function nameHash(name: string): string {
  return hash(name);
}

/** The part of a mark that stands for an image. */
export function idPart({ id }: LocalImage): string {
  return id.replace(/^sha256:/, '').slice(0, 32);
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function toLocalImage(
  image: Pick<Dockerode.ImageInfo, 'Id' | 'Size'> & Partial<Record<'RepoTags' | 'RepoDigests', unknown>>,
): LocalImage {
  const all = [image.RepoTags, image.RepoDigests].flatMap((list) =>
    Array.isArray(list) ? list.map(String) : [],
  );
  // Podman puts `localhost/` in front of names without a registry.
  const own = all.map((name) => name.replace(/^localhost\//, ''));
  const marks = own
    .filter((name) => name.startsWith(`${MARKS}:`))
    .map((name) => name.slice(MARKS.length + 1));
  const names = all.filter((_, index) => !/^longshore-image[:@]/.test(own[index] ?? '')).flatMap(complete);
  return { id: image.Id, names, marks, size: image.Size };
}

/** Names that are none, such as `<none>:<none>`, are left out. */
function complete(name: string): string[] {
  try {
    return [canonicalName(parseImageReference(name))];
  } catch {
    return [];
  }
}
