import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { BoundedReaders } from '../common/http/server/bounded-readers.js';
import { HeldRequests } from '../common/http/server/held-requests.js';
import { monotonicMs } from '../common/monotonic-ms.js';
import { Settings } from '../config/settings.js';
import { shortRunId } from '../database/notices/commit-notice.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import type { Topics } from '../database/notices/topics.js';
import { GroupRepository } from './group.repository.js';

/** Requests that wait for the end of a group, within a quota. Notices name groups as they name runs. */
@Injectable()
export class GroupWaits extends BoundedReaders {
  readonly #topics: Topics;

  constructor(
    notices: CommitNotices,
    requests: HeldRequests,
    settings: Settings,
    private readonly groups: GroupRepository,
  ) {
    super(requests, settings, 'groups');
    this.#topics = notices.topicsOf('runs');
  }

  /** Waits until the group has ended, or for so long. @throws GroupNotFound, OverLimit */
  wait(response: Response, id: string, forMs: number): Promise<void> {
    return this.hold(response, async (signal) => {
      const deadline = monotonicMs() + forMs;
      const topic = this.#topics.subscribe(shortRunId(id));
      try {
        for (;;) {
          const { version } = topic;
          const { state } = await this.groups.get(id);
          const leftMs = deadline - monotonicMs();
          if (state !== 'open' || leftMs <= 0) return;
          if (!(await topic.waitForChange(0, version, { signal, forMs: leftMs }))) return;
        }
      } finally {
        this.#topics.unsubscribe(topic);
      }
    });
  }
}
