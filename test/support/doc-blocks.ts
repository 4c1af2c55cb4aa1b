import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT } from './service-process.js';

/** The shell blocks of a page that are marked with a name: ```` ```sh name ````. */
export class DocBlocks {
  private constructor(
    private readonly page: string,
    private readonly blocks: ReadonlyMap<string, readonly string[]>,
  ) {}

  /** @param path of the page below docs/ */
  static async read(path: string): Promise<DocBlocks> {
    const text = await readFile(join(PROJECT, 'docs', path), 'utf8');
    const blocks = new Map<string, string[]>();
    for (const [, name = '', code = ''] of text.matchAll(/^```sh ?([\w-]*)\n(.*?)^```$/gms)) {
      blocks.set(name, [...(blocks.get(name) ?? []), code]);
    }
    return new DocBlocks(path, blocks);
  }

  /** Names of all blocks; '' when one has none. */
  get names(): readonly string[] {
    return [...this.blocks.keys()];
  }

  /** The one block of a name. */
  one(name: string): string {
    const found = this.blocks.get(name) ?? [];
    assert.equal(found.length, 1, `blocks '${name}' of docs/${this.page}`);
    return found[0] ?? '';
  }
}
