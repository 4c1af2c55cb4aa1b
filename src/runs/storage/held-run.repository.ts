import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor } from '../../database/sql.js';
import { RUNS } from './run-columns.js';
import type { HeldRun } from '../scheduling-strategy.js';

/** SQL of runs in execution, by worker. */
@Injectable()
export class HeldRunRepository {
  /** The runs in execution on the workers, by worker id; workers without runs are left out. */
  async findHeld(
    executor: SqlExecutor,
    workerIds: readonly string[],
  ): Promise<ReadonlyMap<string, readonly HeldRun[]>> {
    const byWorker = new Map<string, HeldRun[]>();
    if (workerIds.length === 0) return byWorker;
    for (const run of await this.listHeld(executor, workerIds)) {
      const others = byWorker.get(run.workerId);
      if (others) others.push(run);
      else byWorker.set(run.workerId, [run]);
    }
    return byWorker;
  }

  /** The runs in execution on any of the workers, in no order. */
  async listHeld(executor: SqlExecutor, workerIds: readonly string[]): Promise<HeldRun[]> {
    return rows(
      executor,
      `select r.id as "runId", ${RUNS.select('r', ['workerId', 'cpu', 'ramMb', 'vramMb', 'gpuId'])}
         from ${RUNS.name} r
        where r.state in ('ASSIGNED', 'RUNNING')
          and r.worker_id = any($1::text[])`,
      [workerIds],
    );
  }
}
