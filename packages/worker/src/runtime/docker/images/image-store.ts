import type Dockerode from 'dockerode';
import { engineMessage, withLimit } from '../engine/docker-engine.js';
import type { RuntimeLog } from '../../runtime.js';
import { CALL_MS, ImageMarks, isEmptyImage, nameHash, type LocalImage } from './image-marks.js';

/** An image that was used so recently is kept: a worker of the same engine may be about to start it. In milliseconds. */
const RECENT_MS = 600_000;

/** How long a use stays recorded before the time is recorded again, in milliseconds. */
const RECORD_MS = 60_000;

/** What pulled images may use of the engine's disk. */
export interface ImageBudget {
  /** Time since the last use, in milliseconds; Infinity: no limit. */
  readonly maxAgeMs: number;
  /** Sum of the sizes, in bytes; Infinity: no limit. */
  readonly maxBytes: number;
}

export const UNLIMITED: ImageBudget = { maxAgeMs: Infinity, maxBytes: Infinity };

interface ImageStoreOptions {
  readonly uses: ImageUses;
  readonly budget: ImageBudget;
  readonly log: RuntimeLog;
  /** Milliseconds since 1970; default: of the system. */
  readonly now?: (() => number) | undefined;
}

/** The images that workers pulled, apart from those that were brought to the engine in another way. */
export class ImageStore {
  readonly marks: ImageMarks;
  private sweeping: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly engine: Dockerode,
    private readonly options: ImageStoreOptions,
  ) {
    this.marks = new ImageMarks(engine);
  }

  /**
   * Records that a pull of a name begins. An image that is there already, and that no worker pulled, stays one.
   * @param before the image that has the name; null: none
   * @returns the mark of the pull for {@link recordUse}; null: the name is not the worker's
   */
  async announce(name: string, before: LocalImage | null): Promise<string | null> {
    if (before !== null) {
      const known = pulledMark(before, name);
      // A worker that removes images sees by it that the image is needed.
      if (known !== null) await this.recordUse(name, before, before, known.tag);
      return known?.tag ?? null;
    }
    const tag = pulledTag(nameHash(name), this.seconds());
    // Without it, an image would be nobody's after a kill between pull and mark.
    await this.marks.markNothing(tag);
    return tag;
  }

  /** Records the use of a pulled image. @param announced what {@link announce} returned @param before as there */
  async recordUse(
    name: string,
    image: LocalImage,
    before: LocalImage | null,
    announced: string | null,
  ): Promise<void> {
    if (announced === null && before?.id === image.id) return;
    const known = pulledMark(image, name);
    const now = this.seconds();
    if (known !== null && Math.abs(now - known.usedAt) * 1000 < RECORD_MS) return;
    const marked = before === null ? null : pulledMark(before, name);
    // The same mark would be taken away from the older image.
    const usedAt = marked?.usedAt === now && before?.id !== image.id ? now + 1 : now;
    const tag = pulledTag(nameHash(name), usedAt);
    await this.marks.mark(image.id, tag);
    const older = announced !== null && announced !== tag && before === null ? [announced] : [];
    for (const mark of new Set([...older, ...(known === null ? [] : [known.tag])]))
      if (mark !== tag) await this.marks.unmark(mark);
  }

  /**
   * Removes an image that only workers pulled and that is not in use.
   * @param options.except a name by which it was not given to a run yet
   * @param options.usedAt only when it was not used since: another worker may have done so
   * @returns whether it is gone
   */
  async removeUnused(
    id: string,
    { except, usedAt }: { readonly except?: string; readonly usedAt?: number } = {},
  ): Promise<boolean> {
    const used = await this.containerImages();
    const images = await this.marks.list();
    const image = images.find((found) => found.id === id);
    if (image === undefined) return true;
    const lastUsed = lastUse(image, intentions(images));
    const isOwn = lastUsed !== null && (usedAt === undefined || lastUsed === usedAt);
    if (!isOwn || used.has(id) || this.options.uses.has(image, except)) return false;
    return this.marks.removeImage(id);
  }

  /** Removes images that workers pulled until they are within the budget, those that were used least recently first. */
  sweep(budget: ImageBudget = this.options.budget): Promise<void> {
    const sweep = this.sweeping.then(() => this.sweepOnce(budget));
    this.sweeping = sweep.catch(() => undefined);
    return sweep;
  }

  private async sweepOnce({ maxAgeMs, maxBytes }: ImageBudget): Promise<void> {
    if (maxAgeMs === Infinity && maxBytes === Infinity) return;
    const images = await this.marks.list();
    const announced = intentions(images);
    const pulled = images
      .flatMap((image) => {
        const usedAt = lastUse(image, announced);
        return usedAt === null ? [] : [{ image, usedAt, ageMs: this.now() - usedAt * 1000 }];
      })
      .toSorted((a, b) => b.ageMs - a.ageMs);
    let bytes = pulled.reduce((sum, { image }) => sum + image.size, 0);
    for (const { image, usedAt, ageMs } of pulled) {
      if (ageMs < RECENT_MS || (ageMs <= maxAgeMs && bytes <= maxBytes)) break;
      if (await this.tryRemove(image, usedAt)) bytes -= image.size;
    }
    for (const [hashed, usedAt] of announced) {
      if (this.now() - usedAt * 1000 > Math.max(maxAgeMs, RECENT_MS))
        await this.marks.unmark(pulledTag(hashed, usedAt));
    }
  }

  private async tryRemove({ id, names }: LocalImage, usedAt: number): Promise<boolean> {
    try {
      const isGone = await this.removeUnused(id, { usedAt });
      if (isGone) this.options.log.info({ image: id, names }, 'image removed: the budget of pulled images');
      return isGone;
    } catch (error) {
      this.options.log.warn({ image: id, names, error: engineMessage(error) }, 'image not removed');
      return false;
    }
  }

  /** Ids of the images of all containers, running or not. */
  private async containerImages(): Promise<Set<string>> {
    const found = await withLimit(CALL_MS, 'list', (abortSignal) =>
      this.engine.listContainers({ all: true, abortSignal }),
    );
    return new Set(found.map(({ ImageID }) => ImageID));
  }

  private seconds(): number {
    return Math.floor(this.now() / 1000);
  }

  private now(): number {
    return (this.options.now ?? Date.now)();
  }
}

interface PulledMark {
  readonly tag: string;
  readonly hash: string;
  /** Seconds since 1970. */
  readonly usedAt: number;
}

function pulledTag(hash: string, usedAt: number): string {
  return `pulled.${hash}.${usedAt}`;
}

function pulledMarks({ marks }: LocalImage): PulledMark[] {
  return marks.flatMap((tag) => {
    const [, hash = '', usedAt = ''] = /^pulled\.([0-9a-f]+)\.([0-9]+)$/.exec(tag) ?? [];
    return hash === '' ? [] : [{ tag, hash, usedAt: Number(usedAt) }];
  });
}

function pulledMark(image: LocalImage, name: string): PulledMark | null {
  const hash = nameHash(name);
  return pulledMarks(image).find((mark) => mark.hash === hash) ?? null;
}

/** Pulls that began and whose image has no mark: hash of the name, and time. */
function intentions(images: readonly LocalImage[]): Map<string, number> {
  const marks = images.filter(isEmptyImage).flatMap(pulledMarks);
  return new Map(marks.map(({ hash, usedAt }) => [hash, usedAt]));
}

/** Seconds since 1970; null: not only workers brought the image. */
function lastUse(image: LocalImage, announced: ReadonlyMap<string, number>): number | null {
  if (isEmptyImage(image)) return null;
  const times = new Map(pulledMarks(image).map(({ hash, usedAt }) => [hash, usedAt]));
  for (const name of image.names) {
    const hashed = nameHash(name);
    const usedAt = times.get(hashed) ?? announced.get(hashed);
    if (usedAt !== undefined) times.set(hashed, usedAt);
    // Digests come with the names.
    else if (!name.includes('@')) return null;
  }
  return times.size === 0 ? null : Math.max(...times.values());
}

/** The images that this worker needs now: those of claimed runs, by name, and by id as soon as a run has pulled one. */
export class ImageUses {
  private readonly uses = new Map<string, { count: number; readonly ids: Set<string> }>();

  /**
   * @param name in its complete form
   * @returns ends the use; idempotent
   */
  keep(name: string): () => void {
    const use = this.uses.get(name) ?? { count: 0, ids: new Set() };
    this.uses.set(name, use);
    use.count += 1;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      use.count -= 1;
      if (use.count === 0) this.uses.delete(name);
    };
  }

  /** Keeps an image as long as its name is in use, also when the name moves to another image. */
  learn(name: string, id: string): void {
    this.uses.get(name)?.ids.add(id);
  }

  /** @param except a name by which it was not given to a run yet */
  has({ id, names }: LocalImage, except?: string): boolean {
    for (const [name, { ids }] of this.uses) {
      if (ids.has(id) || (name !== except && names.includes(name))) return true;
    }
    return false;
  }
}
