import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { BoundedReaders, READER_LIMITS, readerQuota } from '../../common/http/server/bounded-readers.js';
import { HeldRequests } from '../../common/http/server/held-requests.js';
import { Refusals } from '../../common/quotas/refusals.js';
import { Settings } from '../../config/settings.js';
import { RunChanges } from '../events/run-changes.js';

/** The waiting polls of timelines, within a quota. */
@Injectable()
export class TimelinePolls extends BoundedReaders {
  constructor(
    private readonly changes: RunChanges,
    requests: HeldRequests,
    settings: Settings,
    refusals: Refusals,
  ) {
    super(requests, READER_LIMITS, {}, readerQuota('timelines', settings, refusals));
  }

  /**
   * Waits until the run has an event after the index or has ended, or for so long.
   * @throws RunNotFound, KeyOverQuota, ProcessOverQuota
   */
  wait(response: Response, id: string, after: number, forMs: number): Promise<void> {
    return this.hold(response, (signal) => this.changes.waitForEvents(id, after, { forMs, signal }));
  }
}
