import { Injectable } from '@nestjs/common';
import { ChannelNotifications } from '../common/notifications/channel-notifications.js';
import { Notifications } from '../database/notifications.js';
import { LogCompleteness } from './log-completeness.js';
import { LOG_CHANNEL, type LogId } from './run-log.repository.js';
import { SECOND, ScheduledJob } from '../common/scheduling/scheduled-job.js';

@Injectable()
export class LogNotifications extends ChannelNotifications {
  constructor(notifications: Notifications) {
    super(notifications, LOG_CHANNEL);
  }
}

export function topicOf({ runId, attempt }: LogId): string {
  return `${runId} ${attempt}`;
}

/** Wakes readers of logs that are complete without a last chunk, after a time of silence. */
@Injectable()
export class ClosedLogCheck {
  constructor(
    private readonly logs: LogCompleteness,
    private readonly notifications: LogNotifications,
  ) {}

  /** Runs one query for all logs that this process has readers of. @returns how many of these are complete */
  @ScheduledJob({
    name: 'closed_log_check',
    description: 'wakes readers of logs that are over because their worker is stale',
    // Each process wakes its own readers.
    everyMs: 15 * SECOND,
    level: 'debug',
  })
  async runOnce(): Promise<number> {
    const logs = this.notifications.subscribed.map((topic) => {
      const [runId = '', attempt = ''] = topic.split(' ');
      return { runId, attempt: Number(attempt) };
    });
    if (logs.length === 0) return 0;
    const closed = await this.logs.listClosed(logs);
    for (const log of closed) this.notifications.invalidate(topicOf(log));
    return closed.length;
  }
}
