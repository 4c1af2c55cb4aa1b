import { rename, rm, writeFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { errorText } from '@longshore/common/errors';

/**
 * A file for health checks. It holds the time until which the service counts this worker as active (ISO 8601, UTC) and,
 * while the worker does not claim or its machine is unable to do something, a line for each reason. It does not exist before the first accepted heartbeat. Without a
 * path nothing is written.
 */
export class HealthFile {
  private writing: Promise<void> | null = null;
  private text: string | null = null;
  private untilMs: number | null = null;
  private failing = false;

  constructor(
    private readonly path: string | null,
    private readonly logger: Logger,
    /** Why the worker does not claim, and what its machine is unable to do, one line each. */
    private readonly obstacles: () => readonly string[],
  ) {}

  /** Removes the file of a previous process. Call it before the first write. Never rejects. */
  async remove(): Promise<void> {
    const { path } = this;
    if (path !== null) await this.attempt(() => rm(path, { force: true }));
  }

  /**
   * Writes a time, in milliseconds since 1970, and resolves when this content or a later one is written. Never rejects: a
   * full disk must not cost the worker its runs.
   */
  write(untilMs: number): Promise<void> {
    this.untilMs = untilMs;
    return this.refresh();
  }

  /** Writes the newest reasons, once there is a time. */
  refresh(): Promise<void> {
    if (this.path === null || this.untilMs === null) return Promise.resolve();
    this.text = [new Date(this.untilMs).toISOString(), ...this.obstacles()].join('\n');
    this.writing ??= this.writeLatest(this.path).finally(() => {
      this.writing = null;
    });
    return this.writing;
  }

  private async writeLatest(path: string): Promise<void> {
    let written: string | null = null;
    while (this.text !== null && written !== this.text) {
      const { text } = this;
      await this.attempt(async () => {
        // Atomic for readers.
        const next = `${path}.${process.pid}`;
        await writeFile(next, text, { mode: 0o644 });
        await rename(next, path);
      });
      written = text;
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
