import { once } from 'node:events';
import { extract, type Header } from 'tar-stream';

/** Headers and padding of an archive of one file, in bytes at most. */
const ARCHIVE_OVERHEAD = 64 * 1024;

/**
 * Reads an archive that the engine has made of one path. Stops at anything but one regular file within the limit.
 * @param refuse makes the error of what is wrong with it
 */
export async function onlyFile(
  archive: AsyncIterable<unknown>,
  maxBytes: number,
  refuse: (why: string) => Error,
): Promise<Buffer> {
  const headers: Header[] = [];
  const content: Buffer[] = [];
  const entries = extract();
  entries.on('entry', (header, body, next) => {
    headers.push(header);
    body.on('data', (bytes: Buffer) => content.push(bytes));
    body.on('end', next);
  });
  // A broken archive: reported by `finished`, and again for every header after that.
  entries.on('error', () => undefined);
  const finished = once(entries, 'finish');
  finished.catch(() => undefined);
  const check = (length: number): void => {
    if (headers.some(({ type }) => type !== 'file')) throw refuse('it is no regular file');
    if (length > maxBytes + ARCHIVE_OVERHEAD || headers.some(({ size = 0 }) => size > maxBytes))
      throw refuse(`it is larger than ${maxBytes} bytes`);
  };
  let length = 0;
  for await (const bytes of archive) {
    if (!Buffer.isBuffer(bytes)) continue;
    length += bytes.length;
    entries.write(bytes);
    check(length);
  }
  entries.end();
  await finished;
  check(length);
  if (headers.length !== 1) throw refuse('it is no regular file');
  return Buffer.concat(content);
}
