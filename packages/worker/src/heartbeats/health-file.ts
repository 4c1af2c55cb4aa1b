import { rename, rm, writeFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { errorText } from '../execution/failure-message.js';

/**
 * A file for health checks. It holds only the time until which the service counts this worker as active (ISO 8601, UTC),
 * and does not exist before the first accepted heartbeat. Without a path nothing is written.
 */
export class HealthFile {
  private writing: Promise<void> | null = null;
  private untilMs = 0;
  private failing = false;

  constructor(
    private readonly path: string | null,
    private readonly logger: Logger,
  ) {}

  /** Removes the file of a previous process. Call it before the first write. Never rejects. */
  async remove(): Promise<void> {
    const { path } = this;
    if (path !== null) await this.attempt(() => rm(path, { force: true }));
  }

  /**
   * Writes a time, in milliseconds since 1970, and resolves when this time or a later one is written. Never rejects: a
   * full disk must not cost the worker its runs.
   */
  write(untilMs: number): Promise<void> {
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
        // Atomic for readers.
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
