import { rename, rm, writeFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { errorText } from '../execution/failure-message.js';

/**
 * A file that says until when the service takes this worker for alive (ISO 8601 in UTC, nothing else): what a health
 * check of the machine reads. It is missing until the service has taken a heartbeat. Without a path nothing is written.
 */
export class HealthFile {
  private writing: Promise<void> | null = null;
  private untilMs = 0;
  private failing = false;

  constructor(
    private readonly path: string | null,
    private readonly logger: Logger,
  ) {}

  /** Removes what an earlier life left. To be called before the first note. Never rejects. */
  async forget(): Promise<void> {
    const { path } = this;
    if (path !== null) await this.attempt(() => rm(path, { force: true }));
  }

  /**
   * Writes a moment, in milliseconds since 1970. While the disk is slow only the latest one waits. Never rejects: a full
   * disk must not cost the worker its runs.
   * @returns when this moment or a later one has been written, or could not be
   */
  note(untilMs: number): Promise<void> {
    this.untilMs = untilMs;
    if (this.path === null) return Promise.resolve();
    this.writing ??= this.writeLatest(this.path).finally(() => {
      this.writing = null;
    });
    return this.writing;
  }

  private async writeLatest(path: string): Promise<void> {
    let written: number | null = null;
    while (written !== this.untilMs) {
      const { untilMs } = this;
      await this.attempt(async () => {
        // Nobody may read half of it.
        const next = `${path}.${process.pid}`;
        await writeFile(next, new Date(untilMs).toISOString(), { mode: 0o644 });
        await rename(next, path);
      });
      written = untilMs;
    }
  }

  private async attempt(change: () => Promise<void>): Promise<void> {
    try {
      await change();
      this.failing = false;
    } catch (error) {
      const fields = { path: this.path, error: errorText(error) };
      if (!this.failing) this.logger.warn(fields, 'cannot write the health file');
      this.failing = true;
    }
  }
}
