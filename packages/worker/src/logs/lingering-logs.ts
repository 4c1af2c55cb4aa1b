import type { RunLog } from './run-log.js';

/** Logs whose runs have ended here and whose rest is still being shipped. */
export class LingeringLogs {
  private readonly logs = new Map<RunLog, Promise<void>>();

  /** Lets a log linger, for as long as it does by itself. */
  add(log: RunLog): void {
    const lingering = log.linger().finally(() => this.logs.delete(log));
    this.logs.set(log, lingering);
  }

  /** Resolves when none is left. */
  async untilShipped(): Promise<void> {
    while (this.logs.size > 0) await Promise.all(this.logs.values());
  }

  /** Gives up all that is not shipped yet. */
  close(): void {
    for (const log of this.logs.keys()) log.close();
  }
}
