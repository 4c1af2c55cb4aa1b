import { setTimeout as sleep } from 'node:timers/promises';
import { dirname, basename } from 'node:path';
import { openFileBelow } from '@longshore/worker/runtime/open-folder';
import type { OutputChunk } from '@longshore/worker/runtime/log-lines';

/** Bytes of one read. */
const READ_BYTES = 256 * 1024;

/** Interval between polls of a log that may grow, in milliseconds. */
const POLL_INTERVAL_MS = 500;

/** How long a log may lack bytes that its exit record counts, or a look at its end, in milliseconds. */
const COMPLETE_MS = 60_000;

/** What is known about the end of a log. `bytes` is null when nothing counted them. */
export type LogEnd = { readonly bytes: number | null } | null;

/**
 * Reads a growing log from its beginning, and ends when it has ended and is read to its end. Each look opens the file
 * again, because that makes a network file system ask its server, and follows no link of the attempt's folder.
 * @param path of the log, in the folder of an attempt
 * @param endOf the end of the log; null: it may grow
 */
export async function* tailLog(
  path: string,
  endOf: () => Promise<LogEnd>,
  signal: AbortSignal,
): AsyncGenerator<OutputChunk<'stdout'>, void, undefined> {
  let position = 0;
  let endedAtMs: number | null = null;
  for (;;) {
    signal.throwIfAborted();
    // Before the read: what was written before the end is then in the file.
    const end = await endOf();
    const limit = end?.bytes ?? Number.POSITIVE_INFINITY;
    for await (const bytes of readFrom(path, position, limit)) {
      position += bytes.length;
      yield { stream: 'stdout', bytes };
      signal.throwIfAborted();
    }
    if (end !== null) {
      endedAtMs ??= performance.now();
      const isLate =
        performance.now() - endedAtMs >= (end.bytes === null ? 2 * POLL_INTERVAL_MS : COMPLETE_MS);
      if (position >= limit || isLate) return;
    }
    await sleep(POLL_INTERVAL_MS, undefined, { signal });
  }
}

/** The bytes that are there; none when the file is not there, or cannot be read now. */
async function* readFrom(path: string, from: number, limit: number): AsyncGenerator<Buffer, void, undefined> {
  const folder = dirname(path);
  const file = await openFileBelow(dirname(folder), [basename(folder)], basename(path)).catch(() => null);
  if (file === null) return;
  try {
    if (!(await file.stat()).isFile()) return;
    for (let position = from; position < limit;) {
      const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, limit - position));
      const { bytesRead } = await file
        .read(buffer, 0, buffer.length, position)
        .catch(() => ({ bytesRead: 0 }));
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
