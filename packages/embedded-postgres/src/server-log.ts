import { chown, copyFile, open, rename, stat, truncate } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { DatabaseAccount } from './database-account.js';

/** Bytes above which the log is moved to `server.log.1`. */
export const LOG_LIMIT = 16 * 1024 * 1024;

export function logPath(cluster: string): string {
  return join(cluster, 'server.log');
}

/** Opens the log for a server that starts; the caller closes the handle. */
export async function openServerLog(cluster: string, account: DatabaseAccount): Promise<FileHandle> {
  await boundServerLog(cluster);
  const handle = await open(logPath(cluster), 'a', 0o600);
  if (account.runAs !== undefined) await handle.chown(account.uid, account.gid);
  return handle;
}

/** Copies and truncates a log above the limit while the server appends to it; a few lines may be lost. Never rejects. */
export async function boundServerLog(cluster: string, limit = LOG_LIMIT): Promise<void> {
  const log = logPath(cluster);
  try {
    const { size, uid, gid } = await stat(log);
    if (size <= limit) return;
    const copy = `${log}.${process.pid}`;
    await copyFile(log, copy);
    await truncate(log);
    if (process.getuid?.() === 0) await chown(copy, uid, gid);
    await rename(copy, `${log}.1`);
  } catch {
    // No log yet, or no space for the copy: tried again at the next call.
  }
}

/** In bytes; 0 when there is no log. */
export async function logSize(cluster: string): Promise<number> {
  try {
    return (await stat(logPath(cluster))).size;
  } catch {
    return 0;
  }
}

/** The log from a position, at most its last 4,000 bytes. */
export async function logTail(cluster: string, from: number): Promise<string> {
  try {
    const handle = await open(logPath(cluster), 'r');
    try {
      const { size } = await handle.stat();
      const start = Math.max(from, size - 4_000, 0);
      const buffer = Buffer.alloc(Math.max(size - start, 0));
      await handle.read(buffer, 0, buffer.length, start);
      return buffer.toString().trim();
    } finally {
      await handle.close();
    }
  } catch {
    return '';
  }
}
