import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { BrokenTar } from '../../runtime/tar-entries.js';
import { unzstd } from './zstd.js';

const GZIP = Buffer.from([0x1f, 0x8b]);
const ZSTD = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/**
 * Opens a tar, decompressed: which of gzip and zstd it is in, if any, its first bytes tell.
 * @param maxBytes after decompression
 * @returns a stream that fails with BrokenTar when there are more, or a fault of zlib
 */
export async function openTar(path: string, maxBytes: number, signal?: AbortSignal): Promise<Readable> {
  const first = Buffer.alloc(ZSTD.length);
  const file = await open(path);
  try {
    await file.read(first, 0, first.length, 0);
  } finally {
    await file.close();
  }
  const source = createReadStream(path, { signal });
  const isGzip = first.subarray(0, GZIP.length).equals(GZIP);
  // The reader of the last stream hears of the failures of all.
  const plain = isGzip ? pipeline(source, createGunzip(), () => undefined) : source;
  const bytes = first.equals(ZSTD) ? unzstd(source) : plain;
  return Readable.from(limited(bytes, maxBytes), { objectMode: false });
}

async function* limited(source: AsyncIterable<unknown>, maxBytes: number): AsyncGenerator<Buffer> {
  let length = 0;
  for await (const bytes of source) {
    if (!Buffer.isBuffer(bytes)) continue;
    length += bytes.length;
    if (length > maxBytes) throw new BrokenTar(`it has more than ${maxBytes} bytes when it is decompressed`);
    yield bytes;
  }
}
