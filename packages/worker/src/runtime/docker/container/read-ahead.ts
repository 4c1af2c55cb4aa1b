import { once } from 'node:events';
import { PassThrough, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

interface ReadAheadLimits {
  /** Bytes that are taken from the engine as fast as it sends them. */
  readonly fastBytes: number;
  /** Bytes that are taken beyond those, a chunk in each pause. */
  readonly slowBytes: number;
  readonly pauseMs: number;
}

const MIB = 1024 * 1024;

/**
 * Docker waits two seconds for the reader of a container that has ended, then it drops what is left in the two pipes of the
 * container, 64 KiB each. So 64 KiB in each tenth of a second are always taken. The engine holds 1 MB of each stream.
 */
export const READ_AHEAD: ReadAheadLimits = {
  fastBytes: MIB,
  slowBytes: 8 * MIB,
  pauseMs: 100,
};

/**
 * Reads a container's output ahead of a slow consumer, down to a pace at which the engine drops nothing when the container ends.
 * Only a consumer that stays behind by `slowBytes` stops it, and with it the container.
 */
export class ReadAhead {
  /** What was read ahead. */
  readonly output: PassThrough;
  /** When the source ended or broke, in milliseconds of performance.now(); Infinity: it has not. */
  endedAt = Infinity;

  constructor(
    source: Readable,
    private readonly limits = READ_AHEAD,
  ) {
    this.output = new PassThrough({
      readableHighWaterMark: limits.fastBytes,
      writableHighWaterMark: limits.slowBytes,
    });
    void this.copy(source);
  }

  private async copy(source: Readable): Promise<void> {
    const { output, limits } = this;
    try {
      for await (const chunk of source) {
        if (output.destroyed) return;
        if (!output.write(chunk)) await this.untilRoom();
        else if (output.writableLength > 0) await sleep(limits.pauseMs);
      }
      this.endedAt = performance.now();
      output.end();
    } catch (error) {
      this.endedAt = performance.now();
      output.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  private async untilRoom(): Promise<void> {
    const { output } = this;
    const over = new AbortController();
    const { signal } = over;
    await Promise.race([once(output, 'drain', { signal }), once(output, 'close', { signal })]);
    over.abort();
  }
}
