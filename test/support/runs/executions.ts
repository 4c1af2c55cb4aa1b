import { execute, type SqlExecutor } from '../../../src/database/sql/sql.js';

/** Makes `executions` hold exactly the runs in execution, after a test has written `runs` itself. */
export async function addExecutions(executor: SqlExecutor): Promise<void> {
  await execute(executor, 'delete from executions');
  await execute(
    executor,
    `insert into executions (
       run_id, created_at, assigned_at, attempt, cpu_millis, ram_mb, vram_mb, gpu_id, gpu_ids, requirement_id, worker_id, concurrency_key
     )
     select id, created_at, assigned_at, attempt, cpu * 1000, ram_mb, vram_mb, gpu_id, gpu_ids, requirement_id, coalesce(worker_id, ''), concurrency_key
       from runs
      where state in ('ASSIGNED', 'RUNNING')`,
  );
}
