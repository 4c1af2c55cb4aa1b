import { BrokenTar } from '../../runtime/tar-entries.js';
import { errorText } from '@longshore/common/errors';

/** The memory that a frame may ask for, in bytes: as much as the program `zstd` gives without being asked. */
const MAX_WINDOW = 2 ** 27;

const FRAME = 0xfd2fb528;
/** The last four bits of the numbers of frames that are passed over are free. */
const SKIPPED = 0x184d2a50;
const MAX_BLOCK = 2 ** 17;
const DICTIONARY_BYTES = [0, 1, 2, 4] as const;
const CONTENT_BYTES = [0, 2, 4, 8] as const;
/** The type of a block of one byte that is repeated. */
const REPEATED = 1;

/**
 * Decompresses Zstandard, which Node has since version 22 alone. Block by block, so that no few bytes become many at once.
 * @throws BrokenTar when it is not valid
 */
export async function* unzstd(source: AsyncIterable<unknown>): AsyncGenerator<Buffer> {
  const { Decompress } = await import('fzstd');
  const ready: Buffer[] = [];
  const decoder = new Decompress(
    (bytes) => void ready.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)),
  );
  const push = (bytes: Uint8Array, isLast: boolean): Buffer[] => {
    try {
      decoder.push(bytes, isLast);
    } catch (error) {
      throw new BrokenTar(`it is no valid zstd: ${errorText(error)}`);
    }
    return ready.splice(0);
  };
  for await (const piece of pieces(new Bytes(source))) yield* push(piece, false);
  yield* push(new Uint8Array(0), true);
}

/** Frame headers, blocks and checksums. @throws BrokenTar when a frame asks for too much memory or breaks off */
async function* pieces(bytes: Bytes): AsyncGenerator<Buffer> {
  for (let magic = await bytes.readFirst(4); magic !== null; magic = await bytes.readFirst(4)) {
    const number = magic.readUInt32LE();
    if ((number & ~0xf) >>> 0 === SKIPPED) {
      await bytes.skip((await bytes.read(4)).readUInt32LE());
      continue;
    }
    if (number !== FRAME) throw new BrokenTar('it is no valid zstd');
    const descriptor = await bytes.read(1);
    const flags = descriptor.readUInt8();
    const isSingle = (flags & 0x20) !== 0;
    const window = await bytes.read(isSingle ? 0 : 1);
    const dictionary = await bytes.read(DICTIONARY_BYTES[flags & 3] ?? 0);
    const contentBytes = CONTENT_BYTES[flags >> 6] ?? 0;
    const content = await bytes.read(isSingle ? Math.max(1, contentBytes) : contentBytes);
    if ((isSingle ? sizeIn(content) : windowOf(window.readUInt8())) > MAX_WINDOW)
      throw new BrokenTar(`its zstd needs more than ${MAX_WINDOW} bytes of memory`);
    yield Buffer.concat([magic, descriptor, window, dictionary, content]);
    for (let isLast = false; !isLast;) {
      const header = await bytes.read(3);
      const value = header.readUIntLE(0, 3);
      isLast = (value & 1) === 1;
      const size = value >> 3;
      if (size > MAX_BLOCK) throw new BrokenTar('it is no valid zstd');
      const body = await bytes.read(((value >> 1) & 3) === REPEATED ? 1 : size);
      yield Buffer.concat([header, body]);
    }
    if ((flags & 4) !== 0) yield await bytes.read(4);
  }
}

function windowOf(byte: number): number {
  const base = 2 ** (10 + (byte >> 3));
  return base + (base / 8) * (byte & 7);
}

/** The size that a header says, of 1, 2, 4 or 8 bytes. */
function sizeIn(bytes: Buffer): number {
  if (bytes.length === 8) return Number(bytes.readBigUInt64LE());
  return bytes.readUIntLE(0, bytes.length) + (bytes.length === 2 ? 256 : 0);
}

/** Reads a stream in pieces of given lengths. */
class Bytes {
  private readonly source: AsyncIterator<unknown>;
  private rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<unknown>) {
    this.source = source[Symbol.asyncIterator]();
  }

  /** Null: the stream is over. */
  async readFirst(length: number): Promise<Buffer | null> {
    if (this.rest.length === 0 && !(await this.fill())) return null;
    return this.read(length);
  }

  async read(length: number): Promise<Buffer> {
    while (this.rest.length < length) if (!(await this.fill())) throw new BrokenTar('it breaks off');
    const read = this.rest.subarray(0, length);
    this.rest = this.rest.subarray(length);
    return read;
  }

  async skip(length: number): Promise<void> {
    for (let left = length; left > 0;) left -= (await this.read(Math.min(left, MAX_BLOCK))).length;
  }

  private async fill(): Promise<boolean> {
    const { value, done } = await this.source.next();
    if (done === true) return false;
    if (Buffer.isBuffer(value)) this.rest = Buffer.concat([this.rest, value]);
    return true;
  }
}
