import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { recordChange, type Author } from '../../auth/audit-log.js';
import { FileEntity, FileUseEntity } from '../../database/entities/file.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows } from '../../database/sql/sql.js';
import type { FileStore } from '../stores/file-store.js';
import { NOW, UNUSED_HOURS, type FileUser } from '../../database/file-uses.js';
import { keyOf } from './file.repository.js';
import { FileInUse } from './files.errors.js';

/** Hours after the creation of a file from which on no upload of it is under way: its URL works for 24. */
const UPLOAD_HOURS = 25;

/** Files that one transaction judges, at most. */
export const FILES_PER_BATCH = 500;

const FILES = new EntityTable(FileEntity);
const USES = new EntityTable(FileUseEntity);

/** What keeps a file `$1` from being deleted: schedules and versions of definitions as long as they exist, runs until they end. */
const NEEDED_BY = `(select u.kind, u.user_id as id
          from ${USES.name} u
         where u.file_id = $1::uuid and u.kind in ('definition', 'schedule')
         limit 1)
         union all
       (select u.kind, u.user_id as id
          from ${USES.name} u
          join runs r on r.id = u.user_id::uuid
         where u.file_id = $1::uuid and u.kind = 'run' and r.outcome = 'OPEN'
         order by u.user_id desc
         limit 1)
         limit 1`;

/** Files that are due at the time `$1`; with a retention of `$2` days also those that were used before there was one. */
const DUE = `(select id from ${FILES.name} where due_at <= $1::timestamptz order by due_at limit $3::integer)
         union all
       (select id from ${FILES.name} where due_at is null and $2::integer > 0 limit $3::integer)
         limit $3::integer`;

/**
 * Until when the runs, schedules and versions of definitions that use a file need it; null: they do not. The newest runs are
 * the most likely ones to be open.
 */
const NEEDED_UNTIL = `case
                  when exists (
                         select from ${USES.name} u where u.file_id = f.id and u.kind in ('definition', 'schedule')
                       )
                  then 'infinity'
                  else (
                         select coalesce(r.finished_at + make_interval(days => $3::integer), 'infinity')
                           from ${USES.name} u
                           join runs r on r.id = u.user_id::uuid
                          where u.file_id = f.id
                            and u.kind = 'run'
                            and (
                                  r.finished_at is null
                                  or r.finished_at > $2::timestamptz - make_interval(days => $3::integer)
                                )
                          order by u.user_id desc
                          limit 1
                       )
                end`;

/** What becomes of the files `$1` at the time `$2` with a retention of `$3` days. */
const JUDGED = `select d.id,
                       d.is_used,
                       d.needed_until,
                       case
                         when d.state in ('awaited', 'deleted') then 'deleted'
                         when not d.is_used and (d.state = 'removed' or d.is_old) then 'deleted'
                         when d.is_used and d.state = 'stored' and $3::integer > 0 and d.needed_until is null
                         then 'removed'
                         else d.state
                       end as state
                  from (
                         select f.id,
                                f.state,
                                f.last_used_at <= $2::timestamptz - interval '${UNUSED_HOURS} hours' as is_old,
                                exists (select from ${USES.name} u where u.file_id = f.id) as is_used,
                                case when $3::integer > 0 then ${NEEDED_UNTIL} end as needed_until
                           from ${FILES.name} f
                          where f.id = any($1::uuid[])
                       ) d`;

/** Decides about locked files, which with a retention are looked at once a day at least. */
const JUDGE = `update ${FILES.name} f
          set state = j.state,
              removed_at = case when j.state = 'removed' then coalesce(f.removed_at, $2::timestamptz) end,
              due_at = case
                         when j.state in ('deleted', 'removed') then coalesce(f.due_at, $2::timestamptz)
                         when not j.is_used then f.last_used_at + interval '${UNUSED_HOURS} hours'
                         when $3::integer > 0 then least(j.needed_until, $2::timestamptz + interval '1 day')
                       end
         from (${JUDGED}) j
        where f.id = j.id
    returning f.id, f.upload_id as "uploadId", f.state in ('deleted', 'removed') as "isDoomed"`;

/** A file whose bytes are to be removed. */
export type DoomedFile = Pick<FileEntity, 'id' | 'uploadId'>;

/** Removes files: first a mark, then the object, then the row, so that each step can be repeated. */
@Injectable()
export class FileRemovalRepository {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Marks a file as deleted, with an entry of the audit log, unless it is already and its bytes are still to be removed.
   * @returns null: there is no such file
   * @throws FileInUse
   */
  markDeleted(id: string, by: Author): Promise<{ readonly file: DoomedFile; readonly now: Date } | null> {
    return this.dataSource.transaction(async (manager) => {
      const [file] = await rows<FileEntity & { readonly isGone: boolean; readonly now: Date }>(
        manager,
        `select ${FILES.select('f')}, f.state = 'deleted' and f.due_at > clock_timestamp() as "isGone", ${NOW} as now
           from ${FILES.name} f
          where f.id = $1::uuid
            for update`,
        [id],
      );
      if (!file || file.isGone) return null;
      const { now, name, bytes, sha256, contentType, state } = file;
      if (state === 'deleted') return { file, now };
      const [user] = await rows<FileUser>(manager, NEEDED_BY, [id]);
      if (user) throw new FileInUse(id, user);
      await manager.update(FileEntity, { id }, { state: 'deleted', removedAt: null, dueAt: now });
      const before = { name, bytes: Number(bytes), sha256, content_type: contentType, state };
      await recordChange(manager, by, { action: 'file.delete', subject: id, before, after: {} });
      return { file, now };
    });
  }

  /**
   * Looks at files that are due, and marks those that nothing uses any longer. Files that others have locked are left out.
   * @param retentionDays after the last run that used a file; 0: no limit
   * @returns how many were due, 0 when others have locked them all; and those that are marked
   */
  async markDue(
    now: Date,
    retentionDays: number,
  ): Promise<{ readonly due: number; readonly doomed: readonly DoomedFile[] }> {
    const due = await this.#listDue(now, retentionDays, FILES_PER_BATCH);
    if (due.length === 0) return { due: 0, doomed: [] };
    const judged = await this.dataSource.transaction(async (manager) => {
      const locked = await rows<{ readonly id: string }>(
        manager,
        `select id from ${FILES.name} where id = any($1::uuid[]) order by id for update skip locked`,
        [due],
      );
      // A statement of its own: it sees what those recorded that held the locks before.
      return rows<DoomedFile & { readonly isDoomed: boolean }>(manager, JUDGE, [
        locked.map(({ id }) => id),
        now,
        retentionDays,
      ]);
    });
    return { due: judged.length === 0 ? 0 : due.length, doomed: judged.filter(({ isDoomed }) => isDoomed) };
  }

  /** The stored files whose bytes a pass would remove. @param limit files that it looks at */
  async countDoomed(
    now: Date,
    retentionDays: number,
    limit: number,
  ): Promise<{ readonly objects: number; readonly bytes: number; readonly isCut: boolean }> {
    const due = await this.#listDue(now, retentionDays, limit);
    const [doomed] = await rows<{ readonly objects: string; readonly bytes: string }>(
      this.dataSource,
      `select count(*) as objects, coalesce(sum(f.bytes), 0) as bytes
         from (${JUDGED}) j
         join ${FILES.name} f on f.id = j.id
        where f.state = 'stored' and j.state in ('deleted', 'removed')`,
      [due, now, retentionDays],
    );
    return {
      objects: Number(doomed?.objects),
      bytes: Number(doomed?.bytes),
      isCut: due.length === limit,
    };
  }

  async #listDue(now: Date, retentionDays: number, limit: number): Promise<string[]> {
    const due = await rows<{ readonly id: string }>(this.dataSource, DUE, [now, retentionDays, limit]);
    return due.map(({ id }) => id);
  }

  /**
   * Removes the objects of marked files, and then the rows of the deleted ones. As long as an upload may bring an object back, its
   * row is kept, to remove it once more.
   * @throws StoreUnavailable
   */
  async removeObjects(store: FileStore, files: readonly DoomedFile[], now: Date): Promise<void> {
    if (files.length === 0) return;
    for (const { id, uploadId } of files) {
      if (uploadId !== null) await store.parts?.abort(keyOf(id), uploadId);
    }
    await store.remove(files.map(({ id }) => keyOf(id)));
    await execute(
      this.dataSource,
      `with gone as (
         delete from ${FILES.name}
          where id = any($1::uuid[])
            and state = 'deleted'
            and created_at <= $2::timestamptz - interval '${UPLOAD_HOURS} hours'
       )
       update ${FILES.name}
          set upload_id = null,
              due_at = case when state = 'deleted' then created_at + interval '${UPLOAD_HOURS} hours' else 'infinity' end
        where id = any($1::uuid[])
          and due_at <= $2::timestamptz
          and (
                state = 'removed'
                or state = 'deleted' and created_at > $2::timestamptz - interval '${UPLOAD_HOURS} hours'
              )`,
      [files.map(({ id }) => id), now],
    );
  }
}
