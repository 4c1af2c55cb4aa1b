import { stringifyJson } from '@longshore/common/json/json-text';
import { FileEntity, FileUseEntity, type FileUserKind } from './entities/file.entity.js';
import { EntityTable } from './sql/entity-table.js';
import { execute, rows, unnestRows, type SqlExecutor } from './sql/sql.js';

/** What uses a file; the id of a version of a definition holds its name and version. */
export interface FileUser {
  readonly kind: FileUserKind;
  readonly id: string;
}

/** Hours for which a file is kept that nothing uses. */
export const UNUSED_HOURS = 24;

/** The time of a statement. */
export const NOW = "date_trunc('milliseconds', clock_timestamp())";

const FILES = new EntityTable(FileEntity);
const USES = new EntityTable(FileUseEntity);

const ID = '"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"';

/** The id of a file in the JSON of what uses it. In a schedule, an input of the type `file` may have it alone. */
const NAMED = new RegExp(`"file"\\s*:\\s*${ID}`, 'g');
const MAYBE_NAMED = new RegExp(ID, 'g');

/** The files that a JSON text may name, each once. */
export function filesNamedIn(json: string, kind: FileUserKind): string[] {
  const pattern = kind === 'schedule' ? MAYBE_NAMED : NAMED;
  return [...new Set([...json.matchAll(pattern)].flatMap(([, id]) => id ?? []))];
}

/**
 * Records that files are used, each by one of these. They cannot be deleted until the transaction ends, nor afterwards.
 * @param tx in the transaction that stores what uses them
 * @returns those that are not stored, which nothing uses then
 */
export async function useFiles(
  tx: SqlExecutor,
  uses: readonly (FileUser & { readonly fileId: string })[],
): Promise<string[]> {
  if (uses.length === 0) return [];
  const given = unnestRows(
    { kind: 'text', user_id: 'text', file_id: 'uuid' },
    uses.map(({ kind, id, fileId }) => ({ kind, user_id: id, file_id: fileId })),
  );
  const missing = await rows<{ id: string }>(
    tx,
    `with given as materialized (select * from ${given.sql}),
          stored as materialized (
            select f.id
              from ${FILES.name} f
             where f.id in (select file_id from given)
               and f.state = 'stored'
             order by f.id
               for share
          ),
          used as (
            insert into ${USES.name} (kind, user_id, file_id)
            select g.kind, g.user_id, g.file_id
              from given g
              join stored s on s.id = g.file_id
                on conflict do nothing
          )
     select distinct g.file_id as id
       from given g
      where g.file_id not in (select id from stored)`,
    given.params,
  );
  return missing.map(({ id }) => id);
}

/** Forgets what these used. Files that nothing else uses are kept for another day. @param tx in the transaction that removes these */
export async function unuseFiles(tx: SqlExecutor, kind: FileUserKind, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await execute(
    tx,
    `with freed as (
       delete from ${USES.name}
        where kind = $1::text and user_id = any($2::text[])
    returning file_id
     ),
     locked as materialized (
       select f.id
         from ${FILES.name} f
        where f.id in (select file_id from freed)
        order by f.id
          for no key update
     )
     update ${FILES.name} f
        set last_used_at = ${NOW}, due_at = ${NOW} + interval '${UNUSED_HOURS} hours'
       from locked
      where f.id = locked.id and f.state <> 'deleted'`,
    [kind, ids],
  );
}

/** Records the files that a body names, in the place of those that it named before. @returns those that are not stored */
export async function replaceFileUses(
  tx: SqlExecutor,
  user: FileUser,
  body: object | null,
): Promise<string[]> {
  await unuseFiles(tx, user.kind, [user.id]);
  return useFiles(
    tx,
    filesNamedIn(stringifyJson(body), user.kind).map((fileId) => ({ ...user, fileId })),
  );
}
