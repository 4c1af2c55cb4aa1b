import type { EntityManager } from 'typeorm';
import { DatabaseOriginEntity } from './entities/database-origin.entity.js';
import { rows } from './sql.js';

/** What tells a database from one that was restored from its backup, by name; some are not to be had everywhere. */
export type OriginMarks = Readonly<Record<string, string>>;

/**
 * Marks that a role may or may not read: of the cluster, which another one has not; of its history, which goes on under
 * another number after recovery from an archive or a promotion; of its folder, which a copy of the files has not.
 */
const ASKED = [
  {
    name: 'cluster',
    by: 'pg_control_system()',
    value: `(select system_identifier::text from pg_control_system())`,
  },
  {
    name: 'timeline',
    by: 'pg_control_checkpoint()',
    value: `(select timeline_id::text from pg_control_checkpoint())`,
  },
  {
    name: 'folder',
    by: 'pg_stat_file(text)',
    value: `(select extract(epoch from change)::bigint::text from pg_stat_file('PG_VERSION'))`,
  },
] as const;

/** SQL of where the database comes from. */
export class DatabaseOriginRepository {
  /** What can be read of the database as it is. */
  async readMarks(manager: EntityManager): Promise<OriginMarks> {
    const allowed = await rows<{ name: string }>(
      manager,
      `select name
         from unnest($1::text[], $2::text[]) as asked (name, by)
        where has_function_privilege(by, 'execute')`,
      [ASKED.map(({ name }) => name), ASKED.map(({ by }) => by)],
    );
    const names = new Set(allowed.map(({ name }) => name));
    const [row] = await rows<{ marks: Record<string, string | null> }>(
      manager,
      `select jsonb_build_object(
                'database', (select oid::text from pg_database where datname = current_database()),
                'feeds', 'feed_topics'::regclass::oid::text
                ${ASKED.filter(({ name }) => names.has(name))
                  .map(({ name, value }) => `, '${name}', ${value}`)
                  .join('')}
              ) as marks`,
    );
    const marks = Object.entries(row?.marks ?? {});
    return Object.fromEntries(marks.flatMap(([name, mark]) => (mark === null ? [] : [[name, mark]])));
  }

  /** What was noted of the database, or of the one that it was restored from; null: nothing yet. */
  async findMarks(manager: EntityManager): Promise<OriginMarks | null> {
    const origin = await manager.findOneBy(DatabaseOriginEntity, { onlyRow: true });
    return origin?.marks ?? null;
  }

  /** Notes the marks. */
  async saveMarks(manager: EntityManager, marks: OriginMarks): Promise<void> {
    await manager.upsert(DatabaseOriginEntity, { onlyRow: true, marks }, ['onlyRow']);
  }
}

/** Whether a mark that is known of both differs. */
export function differ(known: OriginMarks, present: OriginMarks): boolean {
  return Object.entries(known).some(([name, mark]) => (present[name] ?? mark) !== mark);
}
