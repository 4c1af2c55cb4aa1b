import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { isDatabaseUnavailable } from '../database/unavailable.js';
import { Log } from '../logging/logger.js';
import { LOG_LIMITS, type LogLimits } from './log-limits.js';
import { LogNews, logOf, topicOf } from './log-news.js';
import { RunLogRepository } from './run-log.repository.js';

const EVERY_MS = 15_000;

/**
 * Has readers look again at logs that end without a last chunk, because their worker is lost: that they are over shows in
 * the time that passes, which nobody announces. One query for all readers of the process, none without readers.
 */
@Injectable()
export class ClosedLogsWatch implements OnModuleDestroy {
  #running: Promise<void> | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: RunLogRepository,
    private readonly news: LogNews,
    private readonly log: Log,
    @Inject(LOG_LIMITS) private readonly limits: Pick<LogLimits, 'silenceMs'>,
  ) {}

  /** Begins a look, unless one is under way. */
  @Interval(EVERY_MS)
  tick(): void {
    this.#running ??= this.#look().finally(() => {
      this.#running = undefined;
    });
  }

  /** One look. @returns how many logs are over whose readers wait */
  async runOnce(): Promise<number> {
    const watched = this.news.watched.map(logOf);
    if (watched.length === 0) return 0;
    const closed = await this.repository.listClosed(this.dataSource, watched, this.limits.silenceMs);
    for (const log of closed) this.news.nudge(topicOf(log));
    return closed.length;
  }

  /** Lets a look under way finish. */
  async onModuleDestroy(): Promise<void> {
    await this.#running;
  }

  async #look(): Promise<void> {
    try {
      await this.runOnce();
    } catch (error) {
      if (isDatabaseUnavailable(error)) this.log.warn('could not look for logs that are over yet', { error });
      else this.log.error('could not look for logs that are over', { error });
    }
  }
}
