import {
  applyDecorators,
  Injectable,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import type { Request, Response } from 'express';
import { DataSource } from 'typeorm';
import { actsAs, AllowBoundKeys, covers, isBound, type Caller } from '../../auth/access.js';
import { callerOf } from '../../auth/api-key.guard.js';
import { DatabaseTurns } from '../../common/http/server/database-turns.js';
import { requirementsOf } from '../requirements.js';
import { HeldRunRepository } from '../storage/held-run.repository.js';
import { isRunId } from '../machine/new-id.js';
import { isInExecution } from '../machine/run-state.js';
import type { RunRecord } from '../machine/run.js';
import { RunNotFound, RunRejected } from '../run.errors.js';
import type { Fence } from './request-headers.js';

/**
 * For a key that is bound to workers, a run does not exist that none of them holds or held, or that demands a tag or
 * capability to which the key is not bound.
 */
@Injectable()
export class HeldRunGuard implements CanActivate {
  constructor(
    private readonly runs: HeldRunRepository,
    private readonly dataSource: DataSource,
    private readonly turns: DatabaseTurns,
  ) {}

  /** @throws RunNotFound */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const http = context.switchToHttp();
    const request = http.getRequest<Request<{ id: string }>>();
    const caller = callerOf(request);
    const { id } = request.params;
    if (!isBound(caller) || !isRunId(id)) return true;
    return this.turns.run(http.getResponse<Response>(), () => this.#check(id, caller));
  }

  async #check(id: string, caller: Caller): Promise<true> {
    const holders = await this.runs.findHolders(this.dataSource, id, caller.keyId);
    if (!holders || !covers(caller, requirementsOf(holders))) throw new RunNotFound(id);
    if (holders.isSender || holders.workerIds.some((workerId) => actsAs(caller, workerId))) return true;
    throw new RunNotFound(id);
  }
}

/** The route reads the run of the path, and serves keys that are bound to workers if one of these holds or held it. */
export function AllowHolders(): MethodDecorator {
  return applyDecorators(AllowBoundKeys(), UseGuards(HeldRunGuard));
}

/** @throws RunRejected unless the worker holds the run at this attempt */
export function assertHolds(
  run: Pick<RunRecord, 'state' | 'workerId' | 'attempt'>,
  runId: string,
  { workerId, attempt }: Fence,
): void {
  if (!isInExecution(run.state) || run.workerId !== workerId)
    throw new RunRejected(runId, { reason: 'other-worker', workerId });
  if (run.attempt !== attempt) throw new RunRejected(runId, { reason: 'stale-attempt', attempt });
}
