import { Injectable } from '@nestjs/common';
import { currentSpan } from '@longshore/common/tracing/current-span';
import type { Response } from 'express';
import { Gauge, Registry } from 'prom-client';
import type { Caller } from '../../auth/access.js';
import { HELD, HeldRequests } from '../../common/http/server/held-requests.js';
import { Quota } from '../../common/quotas/quota.js';
import { Refusals } from '../../common/quotas/refusals.js';
import { Settings } from '../../config/settings.js';
import { isRunId } from '../../runs/storage/new-id.js';
import type { LostRun, ReportedRun } from '../../runs/storage/held-run.repository.js';
import type { Heartbeat } from '../pool/worker-pool.js';
import { LostRuns } from './lost-runs.js';

const NONE: readonly LostRun[] = [];

/** Answers recorded heartbeats with the runs that their workers lost, and holds those that may wait for one. */
@Injectable()
export class HeldHeartbeats {
  readonly #quota: Quota;

  constructor(
    private readonly lostRuns: LostRuns,
    private readonly requests: HeldRequests,
    { waitingClaims, waitingClaimsPerKey }: Settings,
    refusals: Refusals,
    registry: Registry,
  ) {
    const quota = new Quota(
      {
        what: 'waiting heartbeats',
        total: { max: waitingClaims, setting: 'SERVICE_WAITING_CLAIMS' },
        perKey: { max: waitingClaimsPerKey, setting: 'SERVICE_WAITING_CLAIMS_PER_KEY' },
      },
      refusals,
    );
    this.#quota = quota;
    const waiting = new Gauge({
      name: 'longshore_waiting_heartbeats',
      help: 'Heartbeats that wait for the loss of a run',
      registers: [],
      collect() {
        this.set(quota.held);
      },
    });
    registry.registerMetric(waiting);
  }

  /**
   * The reported runs that the worker does not hold. Waits for the first one if it may; over the quota it does not wait, as
   * the worker is registered already. Never rejects because of the database: no run is lost then.
   */
  async findLost(
    { id: workerId, runningOps = [] }: Heartbeat,
    waitMs: number,
    caller: Caller,
    response: Response,
  ): Promise<readonly LostRun[]> {
    if (waitMs === 0 && runningOps.length === 0) return NONE;
    const boundKey = caller.workerIds === null ? null : caller.keyId;
    const reported = runningOps.flatMap(({ id, attempt = null }): ReportedRun[] =>
      isRunId(id) ? [{ id, workerId, attempt, boundKey }] : [],
    );
    const held = waitMs > 0 ? this.requests.tryOpen(response, this.#quota) : null;
    if (held === null) {
      if (reported.length === 0) return NONE;
      const request = this.requests.open(response, null);
      const lost = await this.lostRuns.find(reported, request.signal);
      request.close();
      return lost ?? NONE;
    }
    currentSpan()?.set(HELD);
    try {
      return await this.lostRuns.wait(workerId, reported, { signal: held.signal, forMs: waitMs });
    } finally {
      held.close();
    }
  }
}
