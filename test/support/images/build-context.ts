import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Ignore } from '@balena/dockerignore';

// Its types promise an ES module, which it is not.
const dockerignore: () => Ignore = createRequire(import.meta.url)('@balena/dockerignore');

/** What a `.dockerignore` lets into the context of a build. */
export class BuildContext {
  private readonly isSent: (path: string) => boolean;
  private readonly exceptions: readonly string[];

  /** @param root the folder that is the context */
  constructor(readonly root: string) {
    const text = readFileSync(join(root, '.dockerignore'), 'utf8');
    const rules = dockerignore().add(text);
    this.isSent = (path) => !rules.ignores(path);
    this.exceptions = [...text.matchAll(/^!(.+)$/gm)].map(([, path = '']) => path);
  }

  /** Whether a file with this path (relative to the root, wherever it exists) is sent to the builder. */
  sends(path: string): boolean {
    return this.isSent(path);
  }

  /** Paths of all files that are sent, relative to the root, in the order of their names. */
  files(): string[] {
    return this.filesBelow('').toSorted();
  }

  private filesBelow(folder: string): string[] {
    return readdirSync(join(this.root, folder), { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (!entry.isDirectory()) return this.isSent(path) ? [path] : [];
      // As the builder does: an ignored folder is looked into only for the sake of what is excepted in it.
      const isSearched =
        this.isSent(path) || this.exceptions.some((exception) => exception.startsWith(`${path}/`));
      return isSearched ? this.filesBelow(path) : [];
    });
  }
}
