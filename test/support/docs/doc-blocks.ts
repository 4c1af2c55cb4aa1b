import assert from 'node:assert/strict';
import { blocksOf, readPage, type CodeBlock } from './doc-pages.js';

/** The fenced blocks of a page by their language and what stands behind it: ```` ```sh name ````. */
export class DocBlocks {
  private constructor(
    private readonly page: string,
    private readonly blocks: readonly CodeBlock[],
  ) {}

  /** @param page its path from the checkout's root */
  static async read(page: string): Promise<DocBlocks> {
    return new DocBlocks(page, blocksOf(await readPage(page)));
  }

  /** Names of all blocks of a shell; '' when one has none. */
  get names(): readonly string[] {
    return [...new Set(this.blocks.flatMap(({ language, kind }) => (language === 'sh' ? [kind] : [])))];
  }

  /** The code of all blocks of a name, in their order. */
  all(name = '', language = 'sh'): readonly string[] {
    return this.blocks.flatMap((block) =>
      block.language === language && block.kind === name ? [block.code] : [],
    );
  }

  /** The code of the one block of a name. */
  one(name = '', language = 'sh'): string {
    const found = this.all(name, language);
    assert.equal(found.length, 1, `blocks '${language} ${name}' of ${this.page}`);
    return found[0] ?? '';
  }
}
