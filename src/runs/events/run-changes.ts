import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { WaitEnds } from '../../common/waits/until-woken.js';
import { shortRunId } from '../../database/notices/commit-notice.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import type { Topics } from '../../database/notices/topics.js';
import { rows } from '../../database/sql/sql.js';
import { isTerminal, type RunState } from '../machine/run-state.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../machine/new-id.js';

/** Waits for events of runs. */
@Injectable()
export class RunChanges {
  readonly #topics: Topics;

  constructor(
    notices: CommitNotices,
    private readonly dataSource: DataSource,
  ) {
    this.#topics = notices.topicsOf('runs');
  }

  /**
   * Waits until the run has an event after the index or has ended, the time is over, or the signal aborts.
   * @throws RunNotFound
   */
  async waitForEvents(
    id: string,
    after: number,
    { forMs, signal }: WaitEnds & { forMs: number },
  ): Promise<void> {
    const deadline = performance.now() + forMs;
    const topic = this.#topics.subscribe(shortRunId(id));
    try {
      for (;;) {
        const { version } = topic;
        const { state, eventCount } = await this.#read(id);
        const leftMs = deadline - performance.now();
        if (eventCount > after + 1 || isTerminal(state) || leftMs <= 0) return;
        if (!(await topic.waitForChange(after, version, { signal, forMs: leftMs }))) return;
      }
    } finally {
      this.#topics.unsubscribe(topic);
    }
  }

  async #read(id: string): Promise<{ readonly state: RunState; readonly eventCount: number }> {
    const [run] = isRunId(id)
      ? await rows<{ state: RunState; eventCount: number }>(
          this.dataSource,
          `select state, event_count as "eventCount" from runs where id = $1::uuid`,
          [id],
        )
      : [];
    if (run === undefined) throw new RunNotFound(id);
    return run;
  }
}
