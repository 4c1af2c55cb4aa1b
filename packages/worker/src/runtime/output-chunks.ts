import type { Readable } from 'node:stream';

export interface OutputChunk<S> {
  readonly stream: S;
  readonly bytes: Buffer;
}

export interface OutputSource<S> {
  readonly stream: S;
  readonly readable: Readable;
}

/** How long a stream may stay open and silent after the end of its program, in milliseconds. */
export const QUIET_AFTER_END_MS = 5_000;

/**
 * Reads several byte streams in order of arrival, pulling only when the consumer asks: between two reads no more than
 * the streams' own high-water marks is in memory. It ends when all streams have ended, or when `ended` has settled and
 * nothing arrived for `quietMs` (another process still holds the other end). A broken stream counts as ended. A consumer
 * that leaves early does not block the program: what it still prints is discarded.
 */
export async function* readChunks<S>(
  sources: readonly OutputSource<S>[],
  ended: Promise<unknown>,
  quietMs = QUIET_AFTER_END_MS,
): AsyncGenerator<OutputChunk<S>, void, undefined> {
  let wake: (() => void) | null = null;
  const onChange = () => wake?.();
  let hasEnded = false;
  const onEnded = () => {
    hasEnded = true;
    wake?.();
  };
  ended.then(onEnded, onEnded);
  for (const { readable } of sources) {
    for (const event of ['readable', 'end', 'close', 'error']) readable.on(event, onChange);
  }
  try {
    for (;;) {
      let arrived = false;
      for (const { stream, readable } of sources) {
        const bytes: unknown = readable.read();
        if (!Buffer.isBuffer(bytes)) continue;
        arrived = true;
        yield { stream, bytes };
      }
      if (arrived) continue;
      if (sources.every(({ readable }) => isOver(readable))) return;
      const quiet = await new Promise<boolean>((resolve) => {
        const timer = hasEnded ? setTimeout(() => resolve(true), quietMs) : undefined;
        wake = () => {
          clearTimeout(timer);
          resolve(false);
        };
      });
      if (quiet) return;
    }
  } finally {
    for (const { readable } of sources) {
      for (const event of ['readable', 'end', 'close']) readable.off(event, onChange);
      discard(readable, hasEnded, ended);
    }
  }
}

function isOver(readable: Readable): boolean {
  return readable.readableEnded || readable.destroyed || readable.errored !== null;
}

function discard(readable: Readable, hasEnded: boolean, ended: Promise<unknown>): void {
  if (isOver(readable)) return;
  const destroy = () => void readable.destroy();
  if (hasEnded) {
    destroy();
  } else {
    readable.resume();
    ended.then(destroy, destroy);
  }
}
