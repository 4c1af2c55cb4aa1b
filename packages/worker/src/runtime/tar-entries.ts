import { once } from 'node:events';
import { PassThrough, type Readable } from 'node:stream';
import { extract, type Header } from 'tar-stream';

/** An entry of an archive. What is left of its content is passed over when the next one is asked for. */
export interface TarEntry {
  readonly header: Header;
  readonly content: Readable;
}

/** Bytes of headers in front of one entry, and of zeros at the end, that are read. */
const MAX_HEADERS = 2 ** 20;
/** Bytes that are handed to the parser at a time. */
const SLICE = 64 * 1024;
const BLOCK = 512;

/** What is wrong with an archive. */
export class BrokenTar extends Error {}

/**
 * Reads an archive entry by entry: ustar, extended attributes of pax, long names of GNU. As much is read ahead as streams buffer.
 * @param archive is destroyed at the end
 * @throws BrokenTar when it is no archive, breaks off or has no end
 * @throws Error of the stream
 */
export async function* tarEntries(archive: Readable): AsyncGenerator<TarEntry> {
  const parser = extract();
  const state = new Parsing();
  parser.on('entry', (header, source, next) => {
    // Those of the package never tell that they are destroyed.
    const content = source.pipe(new PassThrough());
    // Whoever does not read it hears of the failure from the generator.
    content.on('error', () => undefined);
    const pass = (): void => {
      source.unpipe(content);
      source.resume();
      next();
    };
    state.add({ header, content, pass });
  });
  const failed = new Promise<never>((_resolve, reject) => {
    parser.on('error', (error: Error) => reject(new BrokenTar(error.message)));
  });
  failed.catch(() => undefined);
  const fed = feed();
  fed.then(
    () => state.end(null),
    (error: unknown) => state.end(error),
  );
  try {
    for (;;) {
      const entry = await state.next();
      if (entry === null) return;
      yield entry;
      entry.pass();
    }
  } finally {
    archive.destroy();
    parser.destroy();
  }

  async function feed(): Promise<void> {
    let total = 0;
    let last: Buffer = Buffer.alloc(0);
    for await (const bytes of archive) {
      if (!Buffer.isBuffer(bytes)) continue;
      for (let at = 0; at < bytes.length; at += SLICE) {
        const slice = bytes.subarray(at, at + SLICE);
        total += slice.length;
        last = slice.length < BLOCK ? Buffer.concat([last, slice]).subarray(-BLOCK) : slice.subarray(-BLOCK);
        await Promise.race([
          failed,
          new Promise<void>((resolve) => {
            parser.write(slice, () => resolve());
          }),
        ]);
        state.passed(slice.length);
      }
    }
    parser.end();
    await Promise.race([failed, once(parser, 'finish')]);
    // Without the zeros that end it, it may have lost entries.
    if (total < BLOCK || last.some((byte) => byte !== 0)) throw new BrokenTar('it breaks off');
  }
}

interface Parsed extends TarEntry {
  /** Goes on with the next one. */
  readonly pass: () => void;
}

/** Hands entries from the parser to the reader, one at a time. */
class Parsing {
  private entry: Parsed | null = null;
  private current: Parsed | null = null;
  private over = false;
  private error: unknown = null;
  private wake: () => void = () => undefined;
  /** Bytes that may pass until the next entry. */
  private room = MAX_HEADERS;

  add(entry: Parsed): void {
    const { size = 0 } = entry.header;
    // One that is not a number counts as no content for the parser.
    if (!Number.isSafeInteger(size) || size < 0) throw new BrokenTar('an entry has no valid size');
    this.room = size + 2 * SLICE + MAX_HEADERS;
    this.entry = entry;
    this.wake();
  }

  passed(bytes: number): void {
    this.room -= bytes;
    if (this.room < 0)
      throw new BrokenTar('it has a header of more than 1 MiB, or more than that behind its end');
  }

  end(error: unknown): void {
    if (this.over) return;
    this.over = true;
    this.error = error;
    if (error instanceof Error) this.current?.content.destroy(error);
    this.wake();
  }

  /** Null: there are no more. */
  async next(): Promise<Parsed | null> {
    while (this.entry === null && !this.over) await new Promise<void>((resolve) => (this.wake = resolve));
    if (this.error !== null) throw this.error;
    this.current = this.entry;
    this.entry = null;
    return this.current;
  }
}
