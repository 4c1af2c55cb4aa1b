import { Injectable } from '@nestjs/common';
import { WorkerPool } from '../workers/pool/worker-pool.js';
import { RunLogRepository, type LogId, type LogStatus } from './run-log.repository.js';
import { SECOND, ScheduledJob } from '../common/scheduling/scheduled-job.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import type { Topics } from '../database/notices/topics.js';

/** The name of a log in commit notices. */
export function topicOf({ runId, attempt }: LogId): string {
  return `${runId} ${attempt}`;
}

/**
 * Judges whether a log without a last chunk is complete: its attempt has ended, and nothing was added for a time, which is
 * longer while its worker is active, because that one may still send lines.
 */
@Injectable()
export class LogCompleteness {
  readonly #topics: Topics;

  constructor(
    private readonly logs: RunLogRepository,
    private readonly pool: WorkerPool,
    notices: CommitNotices,
  ) {
    this.#topics = notices.topicsOf('logs');
  }

  /** The status of a log; null for an unknown run. @param attempt null for the current one */
  async findStatus(runId: string, attempt: number | null): Promise<LogStatus | null> {
    const status = await this.logs.findStatus(runId, attempt);
    if (status === null || status.isClosed || status.silentWorker === null) return status;
    const worker = await this.pool.find(status.silentWorker);
    return { ...status, isClosed: worker?.isActive !== true };
  }

  /**
   * Wakes readers of logs that are complete without a last chunk, by one query for all logs that this process has readers of.
   * @returns how many of these are complete
   */
  @ScheduledJob({
    name: 'closed_log_check',
    description: 'wakes readers of logs that are over because their worker is stale',
    // Each process wakes its own readers.
    everyMs: 15 * SECOND,
    level: 'debug',
  })
  async wakeReaders(): Promise<number> {
    const logs = this.#topics.subscribed.map((topic) => {
      const [runId = '', attempt = ''] = topic.split(' ');
      return { runId, attempt: Number(attempt) };
    });
    if (logs.length === 0) return 0;
    const closed = await this.#listClosed(logs);
    for (const log of closed) this.#topics.invalidate(topicOf(log));
    return closed.length;
  }

  /** Those of the logs to which nothing will be added, or whose run is removed. */
  async #listClosed(logs: readonly LogId[]): Promise<LogId[]> {
    const found = await this.logs.listSilent(logs);
    const workers = new Set(found.flatMap(({ silentWorker }) => silentWorker ?? []));
    if (workers.size === 0) return found;
    const pooled = await this.pool.findAll([...workers]);
    return found.filter(({ silentWorker }) => silentWorker === null || !pooled.get(silentWorker)?.isActive);
  }
}
