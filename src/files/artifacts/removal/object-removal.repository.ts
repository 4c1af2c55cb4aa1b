import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { unuseFiles } from '../../../database/file-uses.js';
import { execute, rows } from '../../../database/sql/sql.js';

/** Runs, artifacts or uploads that are looked at together. */
export const PER_PAGE = 100;

/** A run of which objects are to be removed. */
export interface DueRun {
  readonly runId: string;
  readonly removesAll: boolean;
  readonly dueAt: Date;
  /** The current attempt; null: the run was removed. */
  readonly attempt: number | null;
  readonly hasEnded: boolean;
  /** The attempt whose artifacts count; null: none has. */
  readonly counting: number | null;
  /** Whether a run or array that depends on it has not ended. */
  readonly isAwaited: boolean;
}

/** An artifact that was kept long enough. */
export interface OldArtifact {
  readonly runId: string;
  readonly attempt: number;
  readonly name: string;
}

/** An upload in parts that no report has completed. */
export interface OpenUpload extends OldArtifact {
  readonly uploadId: string;
}

/** A run whose objects a sweep has found. */
export interface SweptRun {
  readonly id: string;
  readonly hasEnded: boolean;
  readonly counting: number | null;
}

const COUNTING = '(select a.attempt from artifacts a where a.run_id = r.id limit 1)';

/** Whether a run or array that has not ended depends on a run. */
const isAwaited = (id: string): string => `exists (
                select
                  from dependencies d
                  left join runs c on c.id = d.child_run
                  left join groups g on g.id = d.child_group
                 where d.parent_id = ${id}
                   and not d.is_group
                   and (c.outcome = 'OPEN' or g.state = 'open')
              )`;

/** Artifacts of the service's own store that ended attempts left before `$1`, and that nothing waits for. */
const OLD = `select a.run_id as "runId", a.attempt, a.name, a.bytes
         from artifacts a
        where a.state = 'stored'
          and a.store is null
          and a.at < $1::timestamptz
          and not ${isAwaited('a.run_id')}
        order by a.at, a.run_id`;

/** What is to be removed from the store of files. */
@Injectable()
export class ObjectRemovalRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** The deployment that the database is of. */
  async readDeployment(): Promise<string> {
    const [deployment] = await rows<{ id: string }>(this.dataSource, `select id from deployments`);
    if (!deployment) throw new Error('the database does not tell its deployment');
    return deployment.id;
  }

  listDue(now: Date): Promise<DueRun[]> {
    return rows<DueRun>(
      this.dataSource,
      `select o.run_id as "runId", o.removes_all as "removesAll", o.due_at as "dueAt", r.attempt,
              r.finished_at is not null as "hasEnded", ${COUNTING} as counting, ${isAwaited('o.run_id')} as "isAwaited"
         from object_cleanups o
         left join runs r on r.id = o.run_id
        where o.due_at <= $1::timestamptz
        order by o.due_at
        limit ${PER_PAGE}`,
      [now.toISOString()],
    );
  }

  /**
   * Notes that objects were removed, unless others are to be by now. After all of them the run can be removed, if nobody has opened it again.
   */
  async settle({ runId, removesAll, dueAt, attempt }: DueRun): Promise<void> {
    await this.dataSource.transaction(async (tx) => {
      const settled = await execute(
        tx,
        `delete from object_cleanups
          where run_id = $1::uuid and due_at = $2::timestamptz and removes_all = $3::boolean`,
        [runId, dueAt.toISOString(), removesAll],
      );
      if (!removesAll || settled === 0) return;
      const released = await execute(
        tx,
        `update runs
            set has_files = null
          where id = $1::uuid
            and attempt = $2::integer
            and finished_at is not null`,
        [runId, attempt],
      );
      if (released === 0 && attempt !== null) return;
      await execute(tx, `delete from artifacts where run_id = $1::uuid`, [runId]);
      await execute(tx, `delete from artifact_uploads where run_id = $1::uuid`, [runId]);
      await unuseFiles(tx, 'run', [runId]);
    });
  }

  async postpone({ runId }: DueRun, until: Date): Promise<void> {
    await execute(
      this.dataSource,
      `update object_cleanups
          set due_at = $2::timestamptz
        where run_id = $1::uuid`,
      [runId, until.toISOString()],
    );
  }

  /** Artifacts of the service's own store that ended attempts left before the time, the oldest first. */
  listOld(before: Date): Promise<OldArtifact[]> {
    return rows<OldArtifact>(this.dataSource, `${OLD} limit ${PER_PAGE}`, [before.toISOString()]);
  }

  /** How many of these there are, and their bytes. @param limit after which it counts no further */
  async countOld(before: Date, limit: number): Promise<{ readonly objects: number; readonly bytes: number }> {
    const [old] = await rows<{ readonly objects: string; readonly bytes: string }>(
      this.dataSource,
      `select count(*) as objects, coalesce(sum(bytes), 0) as bytes from (${OLD} limit $2::integer) a`,
      [before.toISOString(), limit],
    );
    return { objects: Number(old?.objects), bytes: Number(old?.bytes) };
  }

  async noteRemoved(removed: readonly OldArtifact[], now: Date): Promise<void> {
    await execute(
      this.dataSource,
      `update artifacts a
          set state = 'removed', removed_at = $4::timestamptz
         from unnest($1::uuid[], $2::integer[], $3::text[]) as v (run_id, attempt, name)
        where a.run_id = v.run_id and a.attempt = v.attempt and a.name = v.name`,
      [
        removed.map(({ runId }) => runId),
        removed.map(({ attempt }) => attempt),
        removed.map(({ name }) => name),
        now.toISOString(),
      ],
    );
  }

  /** Uploads in parts that were begun before the time. */
  listUploads(before: Date): Promise<OpenUpload[]> {
    return rows<OpenUpload>(
      this.dataSource,
      `select run_id as "runId", attempt, name, upload_id as "uploadId"
         from artifact_uploads
        where started_at < $1::timestamptz
        order by started_at
        limit ${PER_PAGE}`,
      [before.toISOString()],
    );
  }

  async forgetUpload({ runId, attempt, name, uploadId }: OpenUpload): Promise<void> {
    await execute(
      this.dataSource,
      `delete from artifact_uploads
        where run_id = $1::uuid and attempt = $2::integer and name = $3::text and upload_id = $4::text`,
      [runId, attempt, name, uploadId],
    );
  }

  /** Those of the runs that exist and have files. */
  findRuns(ids: readonly string[]): Promise<SweptRun[]> {
    return rows<SweptRun>(
      this.dataSource,
      `select r.id, r.finished_at is not null as "hasEnded", ${COUNTING} as counting
         from runs r
        where r.id = any($1::uuid[])
          and r.has_files`,
      [ids],
    );
  }
}
