import { randomUUID } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { CommitNotices, type NoticeSource } from '../database/notices/commit-notices.js';

/**
 * Whether other processes serve claims with keys. The notice of such a commit names its process, at most once in five
 * seconds; a process that receives no such notice knows that no such claim was served elsewhere.
 */
@Injectable()
export class ServedNotices implements OnModuleDestroy {
  /**
   * Least time between two announcements of a process, and time for which a received one counts: longer than the first
   * plus the longest delay of a commit. In milliseconds.
   */
  readonly times = { announceEvery: 5_000, validFor: 20_000 };
  readonly #name = randomUUID();
  #announcedAt = -Infinity;
  #receivedAt = Infinity;
  #unsubscribe: (() => void) | undefined;

  constructor(@Inject(CommitNotices) private readonly notices: NoticeSource) {}

  /** The name of this process, which the commit of a claim announces if the claim is served; null: it does not. */
  nameToAnnounce(): string | null {
    this.listen();
    return performance.now() - this.#announcedAt < this.times.announceEvery ? null : this.#name;
  }

  /** Whether no other process has served a claim with a key since the time, by `performance.now()`. */
  isQuietSince(time: number): boolean {
    return this.notices.isListening && time > this.#receivedAt + this.times.validFor;
  }

  listen(): void {
    this.#unsubscribe ??= this.notices.subscribe((notice) => {
      // The own announcement proves that it was committed.
      if (notice?.servedBy === this.#name) this.#announcedAt = performance.now();
      else if (notice === null || notice.servedBy !== undefined) this.#receivedAt = performance.now();
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
  }
}
