import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor } from '../../database/sql.js';
import { RUNS } from './run-columns.js';
import type { HeldRun } from '../scheduling-strategy.js';

/** SQL of the runs that are in execution, by the workers that hold them. */
@Injectable()
export class HeldRunRepository {
  /** The runs that the service has in execution on the workers, by worker; one that holds none is left out. */
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

  /** The runs that the service has in execution on any of the workers, in no order. */
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
