import { createHash } from 'node:crypto';

/** An image as the engine's list and inspection have it. */
export interface FakeImage {
  readonly Id: string;
  readonly RepoTags: string[];
  readonly RepoDigests: string[];
  readonly Size: number;
}

/** The images of the fake engine: names, each of which belongs to one image. */
export class FakeImages {
  /** Size of each image, in bytes. */
  size = 1_000;
  private nameless = 0;
  private readonly ids = new Map<string, string>();
  /** What registries have, where it differs from the name's own image. */
  private readonly published = new Map<string, string>();

  /** Gives an image the name. @param id default: one of the name alone */
  add(name: string, id = imageId(name)): void {
    this.ids.set(name, id);
  }

  /** @returns the id of a new image without a name */
  addNameless(): string {
    const id = imageId(`nameless ${(this.nameless += 1)}`);
    this.add(id, id);
    return id;
  }

  /** Sets the image that pulls of the name bring. */
  publish(name: string, id: string): void {
    this.published.set(name, id);
  }

  pull(name: string): void {
    this.add(name, this.published.get(name) ?? this.ids.get(name));
  }

  /** @param name a name or an id */
  find(name: string): FakeImage | null {
    const id = this.ids.get(name) ?? name;
    return this.list().find(({ Id }) => Id === id) ?? null;
  }

  has(name: string): boolean {
    return this.find(name) !== null;
  }

  list(): FakeImage[] {
    const all = [...this.ids.keys()];
    return [...new Set(this.ids.values())].map((Id) => {
      const names = all.filter((name) => name !== Id && this.ids.get(name) === Id);
      const RepoDigests = names.filter((name) => name.includes('@'));
      return { Id, RepoTags: names.filter((name) => !name.includes('@')), RepoDigests, Size: this.size };
    });
  }

  /** Names of an image that are marks of a worker. */
  marksOf(name: string): string[] {
    const { RepoTags = [] } = this.find(name) ?? {};
    return RepoTags.filter((tag) => tag.startsWith('longshore-image:')).map((tag) => tag.slice(16));
  }

  /** Removes a name, or an image with all of its names. @returns false when there is none */
  remove(name: string): boolean {
    const found = this.find(name);
    if (found === null) return false;
    for (const other of found.Id === name ? [found.Id, ...found.RepoTags, ...found.RepoDigests] : [name])
      this.ids.delete(other);
    return true;
  }
}

/** The id of the image that a pull of the name brings. */
export function imageId(name: string): string {
  return `sha256:${createHash('sha256').update(name).digest('hex')}`;
}
