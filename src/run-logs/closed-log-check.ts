import { Injectable } from '@nestjs/common';
import { SECOND, ScheduledJob } from '../common/scheduling/scheduled-job.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import type { Topics } from '../database/notices/topics.js';
import { LogCompleteness } from './log-completeness.js';
import type { LogId } from './run-log.repository.js';

/** The name of a log in commit notices. */
export function topicOf({ runId, attempt }: LogId): string {
  return `${runId} ${attempt}`;
}

/** Wakes readers of logs that are complete without a last chunk, after a time of silence. */
@Injectable()
export class ClosedLogCheck {
  readonly #topics: Topics;

  constructor(
    private readonly logs: LogCompleteness,
    notices: CommitNotices,
  ) {
    this.#topics = notices.topicsOf('logs');
  }

  /** Runs one query for all logs that this process has readers of. @returns how many of these are complete */
  @ScheduledJob({
    name: 'closed_log_check',
    description: 'wakes readers of logs that are over because their worker is stale',
    // Each process wakes its own readers.
    everyMs: 15 * SECOND,
    level: 'debug',
  })
  async runOnce(): Promise<number> {
    const logs = this.#topics.subscribed.map((topic) => {
      const [runId = '', attempt = ''] = topic.split(' ');
      return { runId, attempt: Number(attempt) };
    });
    if (logs.length === 0) return 0;
    const closed = await this.logs.listClosed(logs);
    for (const log of closed) this.#topics.invalidate(topicOf(log));
    return closed.length;
  }
}
