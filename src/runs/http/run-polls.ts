import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { BoundedReaders } from '../../common/http/server/bounded-readers.js';
import { HeldRequests } from '../../common/http/server/held-requests.js';
import { Settings } from '../../config/settings.js';
import { RunChanges } from '../reading/run-changes.js';
import type { RunVersion } from '../reading/shared-run-reads.js';

/** The waiting polls of runs and of their timelines, within a quota. */
@Injectable()
export class RunPolls extends BoundedReaders {
  constructor(
    private readonly changes: RunChanges,
    requests: HeldRequests,
    settings: Settings,
  ) {
    super(requests, settings, 'runs and timelines');
  }

  /**
   * Waits until a version of the run is due, or for so long.
   * @throws RunNotFound, OverLimit
   */
  wait(response: Response, id: string, isDue: (run: RunVersion) => boolean, forMs: number): Promise<void> {
    return this.hold(response, (signal) => this.changes.waitUntil(id, isDue, { forMs, signal }));
  }
}
