import { rename, rm, writeFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { errorText } from '../execution/failure-message.js';

/**
 * A file for health checks. It holds the time until which the service counts this worker as active (ISO 8601, UTC), and in a
 * second line why this worker ends, which no health check takes for a time. It does not exist before the first accepted
 * heartbeat. Without a path nothing is written.
 */
export class HealthFile {
  private writing: Promise<void> | null = null;
  private content = '';
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
   * Writes a time, in milliseconds since 1970, and resolves when this content or a later one is written. Never rejects: a
   * full disk must not cost the worker its runs.
   * @param ending why this worker ends; null: it does not
   */
  write(untilMs: number, ending: string | null = null): Promise<void> {
    this.content = [new Date(untilMs).toISOString(), ...(ending === null ? [] : [ending])].join('\n');
    if (this.path === null) return Promise.resolve();
    this.writing ??= this.writeLatest(this.path).finally(() => {
      this.writing = null;
    });
    return this.writing;
  }

  private async writeLatest(path: string): Promise<void> {
    let written: string | null = null;
    while (written !== this.content) {
      const { content } = this;
      await this.attempt(async () => {
        // Atomic for readers.
        const next = `${path}.${process.pid}`;
        await writeFile(next, content, { mode: 0o644 });
        await rename(next, path);
      });
      written = content;
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
