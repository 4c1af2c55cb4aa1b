import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor } from '../database/sql.js';
import type { HeldRun } from './scheduling-strategy.js';

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
      `select id as "runId",
              worker_id as "workerId",
              cpu,
              ram_mb as "ramMb",
              vram_mb as "vramMb",
              gpu_id as "gpuId"
         from runs
        where state in ('ASSIGNED', 'RUNNING')
          and worker_id = any($1::text[])`,
      [workerIds],
    );
  }
}
