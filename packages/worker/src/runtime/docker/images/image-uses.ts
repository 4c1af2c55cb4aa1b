import type { LocalImage } from './image-marks.js';

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
