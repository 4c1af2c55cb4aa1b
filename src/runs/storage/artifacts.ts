import type { EntityManager } from 'typeorm';
import type { ArtifactEntity } from '../../database/entities/artifact.entity.js';
import type { LeftFiles } from '../machine/run.js';
import { useFiles } from '../../database/file-uses.js';
import { execute, plainArray, RowArrays } from '../../database/sql/sql.js';

/** What the last attempt of a run has left that ended by a report. */
export interface Leavings extends LeftFiles {
  readonly runId: string;
}

/** A file that a new run gets. */
export interface FileUse {
  readonly runId: string;
  readonly fileId: string;
}

const INSERT = `insert into artifacts (
         run_id, name, attempt, path, bytes, sha256, etag, content_type, state, store, key, at
       )
       select v.*
         from unnest(
                $1::uuid[], $2::text[], $3::integer[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
                $10::text[], $11::text[], $12::timestamptz[]
              ) as v (run_id, name, attempt, path, bytes, sha256, etag, content_type, state, store, key, at)`;
const ARTIFACTS = RowArrays.of<Exclude<keyof ArtifactEntity, 'removedAt'>>(INSERT);

/** Attempts that do not count may still send something for an hour after the end of their run. */
const LATE = '1 hour';

/** Has objects of runs that have ended removed: those of attempts that do not count. */
async function scheduleCleanups(tx: EntityManager, runIds: readonly string[], now: Date): Promise<void> {
  await execute(
    tx,
    `insert into object_cleanups (run_id, due_at)
     select id, $2::timestamptz + interval '${LATE}'
       from unnest($1::uuid[]) as v (id)
         on conflict (run_id) do update set due_at = excluded.due_at, removes_all = false`,
    [plainArray(runIds), now.toISOString()],
  );
}

/** Has all objects of runs removed, so that the runs can be removed afterwards. */
export async function scheduleRemoval(
  tx: EntityManager,
  runIds: readonly string[],
  now: Date,
): Promise<void> {
  await execute(
    tx,
    `insert into object_cleanups (run_id, due_at, removes_all)
     select id, $2::timestamptz, true
       from unnest($1::uuid[]) as v (id)
         on conflict (run_id) do update set due_at = excluded.due_at, removes_all = true
      where not object_cleanups.removes_all`,
    [plainArray(runIds), now.toISOString()],
  );
}

/** Writes what attempts have left, in the place of what earlier ones of their runs had. */
async function writeLeavings(tx: EntityManager, all: readonly Leavings[], at: Date): Promise<void> {
  const runIds = plainArray(all.map(({ runId }) => runId));
  await execute(tx, `delete from artifacts where run_id = any($1::uuid[])`, [runIds]);
  await execute(tx, `update runs set has_files = true where id = any($1::uuid[]) and has_files is null`, [
    runIds,
  ]);
  const found = all.flatMap(({ runId, attempt, artifacts }) =>
    artifacts.map((artifact) => ({ ...artifact, runId, attempt, at })),
  );
  if (found.length > 0) await execute(tx, INSERT, ARTIFACTS.params(found));
}

/** What a group of commands changes of the files of runs. */
export interface FileChanges {
  readonly now: Date;
  /** What attempts have left. */
  readonly leavings: readonly Leavings[];
  /** Files that new runs get. */
  readonly fileUses: readonly FileUse[];
  /** Runs that have ended and may have objects in the store. */
  readonly cleanups: readonly string[];
}

/** Writes what there is. */
export async function writeFiles(
  tx: EntityManager,
  { now, leavings, fileUses, cleanups }: FileChanges,
): Promise<void> {
  await Promise.all([
    leavings.length > 0 && writeLeavings(tx, leavings, now),
    fileUses.length > 0 &&
      useFiles(
        tx,
        fileUses.map(({ runId, fileId }) => ({ kind: 'run', id: runId, fileId })),
      ),
    cleanups.length > 0 && scheduleCleanups(tx, cleanups, now),
  ]);
}
