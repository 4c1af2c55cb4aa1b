import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { BoundedReaders } from '../../common/http/server/bounded-readers.js';
import { HeldRequests } from '../../common/http/server/held-requests.js';
import type { WaitEnds } from '../../common/waits/until-woken.js';
import { Settings } from '../../config/settings.js';
import { shortRunId } from '../../database/notices/commit-notice.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import type { Topic, Topics } from '../../database/notices/topics.js';
import { BatchedRunReads, type RunVersion } from '../reading/batched-run-reads.js';
import { RunNotFound } from '../run.errors.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** The waiting polls of runs and of their timelines, within a quota. */
@Injectable()
export class RunPolls extends BoundedReaders {
  readonly #topics: Topics;
  /** The version that was read last, while its topic knows that it is still the newest. */
  readonly #newest = new WeakMap<Topic, RunVersion>();

  constructor(
    notices: CommitNotices,
    private readonly batched: BatchedRunReads,
    requests: HeldRequests,
    settings: Settings,
  ) {
    super(requests, settings, 'runs and timelines');
    this.#topics = notices.topicsOf('runs');
  }

  /**
   * Waits until a version of the run is due, or for so long.
   * @throws RunNotFound, OverLimit
   */
  wait(response: Response, id: string, isDue: (run: RunVersion) => boolean, forMs: number): Promise<void> {
    return this.hold(response, (signal) => this.waitUntil(id, isDue, { forMs, signal }));
  }

  /**
   * Waits until a version of the run is due, the time is over, or the signal aborts. Of all who wait for a run, the first
   * reads it, and together they read it after each of its commits.
   * @param isDue called with the version at the beginning, then with later ones
   * @throws RunNotFound, also when the run is removed meanwhile
   */
  async waitUntil(
    id: string,
    isDue: (run: RunVersion) => boolean,
    { forMs, signal }: WaitEnds & { forMs: number },
  ): Promise<void> {
    const deadline = monotonicMs() + forMs;
    const topic = this.#topics.subscribe(shortRunId(id));
    try {
      for (;;) {
        const { version } = topic;
        const run = this.#known(topic, id) ?? (await this.#read(topic, id));
        const leftMs = deadline - monotonicMs();
        if (isDue(run) || leftMs <= 0) return;
        if (!(await topic.waitForChange(0, version, { signal, forMs: leftMs }))) return;
      }
    } finally {
      this.#topics.unsubscribe(topic);
    }
  }

  #known(topic: Topic, id: string): RunVersion | undefined {
    const run = topic.endBehind(0) === undefined ? undefined : this.#newest.get(topic);
    // Another run may have the same short id.
    return run?.id === id ? run : undefined;
  }

  async #read(topic: Topic, id: string): Promise<RunVersion> {
    const { version } = topic;
    const run = await this.batched.findVersion(id);
    if (run === undefined) throw new RunNotFound(id);
    if (version === topic.version) this.#newest.set(topic, run);
    topic.noteEnd(0, 0, version);
    return run;
  }
}
