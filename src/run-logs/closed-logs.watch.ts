import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { LOG_LIMITS, type LogLimits } from './log-limits.js';
import { LogNotifications, logOf, topicOf } from './log-notifications.js';
import { RunLogRepository } from './run-log.repository.js';

/**
 * Wakes readers of logs that end without a last chunk because their worker is lost: such a log is over after a time of
 * silence, which nothing announces.
 */
@Injectable()
export class ClosedLogsWatch {
  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: RunLogRepository,
    private readonly news: LogNotifications,
    @Inject(LOG_LIMITS) private readonly limits: Pick<LogLimits, 'silenceMs'>,
  ) {}

  /** Runs one query for all readers of the process, none without readers. @returns how many logs are over */
  async runOnce(): Promise<number> {
    const watched = this.news.watched.map(logOf);
    if (watched.length === 0) return 0;
    const closed = await this.repository.listClosed(this.dataSource, watched, this.limits.silenceMs);
    for (const log of closed) this.news.nudge(topicOf(log));
    return closed.length;
  }
}
