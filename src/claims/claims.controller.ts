import { Controller, HttpCode, Injectable, Param, Post, Query, Res } from '@nestjs/common';
import { ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowBoundKeys, AllowScopes, type Caller } from '../auth/access.js';
import { assertActsAs, CurrentCaller } from '../auth/api-key.guard.js';
import { HeldRequests } from '../common/http/server/held-requests.js';
import { Quota } from '../common/quotas/quota.js';
import { Settings } from '../config/settings.js';
import { WORKER_ID_PARAM } from '../common/http/api-examples.js';
import { ApiIdempotencyKey, IdempotencyOf } from '../runs/http/idempotency.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { ClaimInstrumentation } from './claim-instrumentation.js';
import { RequestAddress } from '../common/http/request/request-address.js';
import { RunFiles } from '../runs/files/run-files.js';
import type { ClaimedRun } from '../runs/journal/command.js';
import { ClaimedOpsDto, ClaimQueryDto, toWorkerOpRunDto, type WorkerOpRunDto } from './claim.dto.js';
import { ClaimService } from './claim.service.js';

const CLAIMED_RUNS = 'X-Claimed-Runs';

/** Ids in the header, at most: proxies limit the headers of a response to 4 KiB. */
const MAX_LISTED = 50;

/** The claims that may wait for work. */
@Injectable()
export class ClaimQuota extends Quota {
  constructor({ waitingClaims: total, waitingClaimsPerKey: perKey }: Settings) {
    super({ what: 'waiting claims', setting: 'SERVICE_WAITING_CLAIMS', total, perKey });
  }
}

@ApiTags('workers')
@Controller('workers')
export class ClaimsController {
  constructor(
    private readonly claims: ClaimService,
    private readonly requests: HeldRequests,
    private readonly instrumentation: ClaimInstrumentation,
    private readonly quota: ClaimQuota,
    private readonly files: RunFiles,
  ) {}

  /**
   * Claim runs for a worker
   * @remarks Empty if there is no work or the worker is unknown. With `wait`, the service waits for work before an empty
   * response. The runs stay assigned to the worker even if the response is lost: send an `Idempotency-Key` to get them
   * again.
   */
  @Post(':worker_id/claim')
  @HttpCode(200)
  @AllowScopes('worker')
  @AllowBoundKeys()
  @ApiParam(WORKER_ID_PARAM)
  @ApiIdempotencyKey(
    'The same key from the same worker answers with the runs of the first claim that are still assigned to it.',
  )
  @ApiOkResponse({
    type: ClaimedOpsDto,
    description: 'The assigned runs.',
    headers: {
      [CLAIMED_RUNS]: {
        description: `Ids of the assigned runs, separated by spaces, at most ${MAX_LISTED}: heartbeats can name them before the body has arrived.`,
        schema: { type: 'string' },
      },
    },
  })
  async claimRuns(
    @Param('worker_id') workerId: string,
    @Query() { wait = 0, max }: ClaimQueryDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @CurrentCaller() caller: Caller,
    @RequestAddress() base: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<ClaimedOpsDto> {
    assertActsAs(caller, workerId);
    const held = this.requests.open(response, wait > 0 ? this.quota : null);
    try {
      const request = { workerId, max, waitMs: wait * 1000, idempotency, caller, signal: held.signal };
      const { runs } = await this.instrumentation.observe(request, () => this.claims.claim(request));
      const ops = (await Promise.all(runs.map((run) => this.#handOut(run, workerId, base)))).filter(
        (op) => op !== null,
      );
      const listed = ops.slice(0, MAX_LISTED).map(({ id }) => id);
      if (listed.length > 0) response.setHeader(CLAIMED_RUNS, listed.join(' '));
      return { ops };
    } finally {
      held.close();
    }
  }

  /** A claimed run as its worker gets it; null: a file is not there, and its attempt has ended. */
  async #handOut(claimed: ClaimedRun, workerId: string, base: string): Promise<WorkerOpRunDto | null> {
    const op = toWorkerOpRunDto(claimed);
    const { run, inputs, options } = claimed;
    if (run.hasFiles === null) return op;
    const linked = await this.files.handOut({ ...run, inputs, options }, workerId, base);
    return linked && { ...op, ...linked };
  }
}
