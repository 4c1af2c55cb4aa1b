import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, unnestRows } from '../database/sql.js';
import type { Run } from './run-machine/run.js';

/** SQL of the table `run_queue`: one narrow row per pending run. */
@Injectable()
export class QueueRepository {
  /** Puts pending runs into the queue, or takes over their new priority when they are in it. */
  async put(manager: EntityManager, pending: readonly Run[]): Promise<void> {
    const source = unnestRows(
      {
        run_id: 'uuid',
        priority: 'integer',
        created_at: 'timestamptz',
        ram_mb: 'integer',
        vram_mb: 'integer',
        cpu: 'integer',
      },
      pending.map((run) => ({
        run_id: run.id,
        priority: run.priority,
        created_at: run.createdAt,
        ram_mb: run.ramMb,
        vram_mb: run.vramMb,
        cpu: run.cpu,
      })),
    );
    await execute(
      manager,
      `insert into run_queue (run_id, priority, created_at, ram_mb, vram_mb, cpu)
       select run_id, priority, created_at, ram_mb, vram_mb, cpu
         from ${source.sql}
           on conflict (run_id) do update
          set priority = excluded.priority`,
      source.params,
    );
  }

  /** Takes runs out of the queue. */
  async remove(manager: EntityManager, runIds: readonly string[]): Promise<void> {
    await execute(
      manager,
      `delete from run_queue
        where run_id = any($1::uuid[])`,
      [runIds],
    );
  }
}
