import type { EntityManager } from 'typeorm';
import type { ArtifactEntity } from '../../database/entities/artifact.entity.js';
import type { LeftFiles } from '../machine/run.js';
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

const USE = `with v as (
         select distinct run_id, file_id
           from unnest($1::uuid[], $2::uuid[]) as v (run_id, file_id)
       ),
       used as materialized (
         select id
           from files
          where id in (select file_id from v)
            and state = 'stored'
          order by id
            for share
       )
       insert into file_uses (kind, user_id, file_id)
       select 'run', v.run_id::text, v.file_id
         from v
         join used on used.id = v.file_id`;

/** Notes the files that new runs get, those that are still stored. */
export async function insertFileUses(tx: EntityManager, uses: readonly FileUse[]): Promise<void> {
  await execute(tx, USE, [
    plainArray(uses.map(({ runId }) => runId)),
    plainArray(uses.map(({ fileId }) => fileId)),
  ]);
}

/** Writes what attempts have left, in the place of what earlier ones of their runs had. */
export async function writeLeavings(tx: EntityManager, all: readonly Leavings[], at: Date): Promise<void> {
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
