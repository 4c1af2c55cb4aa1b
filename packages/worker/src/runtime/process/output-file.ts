import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { MAX_OUTPUT_BYTES, refusedOutputs } from '../outputs.js';

/**
 * Reads the output file of an untrusted program: follows no link, does not block on pipes or devices, and reads at most
 * the limit.
 * @returns null when the file is missing
 * @throws RunFault when it is no regular file or too large
 * @throws Error fit for a run's error_message when this machine cannot read it
 */
export async function readOutputFile(path: string, maxBytes = MAX_OUTPUT_BYTES): Promise<Buffer | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    if (code === 'ENOENT') return null;
    if (code === 'ELOOP' || code === 'ENXIO') throw refusedOutputs('it is no regular file');
    if (code === 'EACCES' || code === 'EPERM') throw refusedOutputs(`it cannot be opened (${code})`);
    throw new Error(`The run's output file cannot be opened (${code})`, { cause: error });
  }
  try {
    const stat = await file.stat();
    if (!stat.isFile()) throw refusedOutputs('it is no regular file');
    if (stat.nlink > 1) throw refusedOutputs('it has a second name (a hard link)');
    return await readCapped(file, maxBytes);
  } finally {
    await file.close();
  }
}

async function readCapped(file: FileHandle, maxBytes: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let length = 0; ;) {
    const part = Buffer.allocUnsafe(64 * 1024);
    const { bytesRead } = await file.read(part, 0, part.length, null);
    if (bytesRead === 0) return Buffer.concat(parts, length);
    length += bytesRead;
    if (length > maxBytes) throw refusedOutputs(`it is larger than ${maxBytes} bytes`);
    parts.push(part.subarray(0, bytesRead));
  }
}
