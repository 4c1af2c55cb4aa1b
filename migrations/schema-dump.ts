import { rows, type SqlExecutor } from '../src/database/sql/sql.js';

interface Relation {
  readonly name: string;
  readonly options: string[] | null;
  readonly persistence: string;
  readonly columns: string[];
  readonly constraints: string[] | null;
  readonly indexes: string[] | null;
  readonly triggers: string[] | null;
}

/** The tables of the service's database as text, for reviewers: columns, constraints, indexes, triggers, storage options. */
export async function dumpSchema(executor: SqlExecutor): Promise<string> {
  const relations = await rows<Relation>(
    executor,
    `select c.relname as name,
            c.reloptions as options,
            c.relpersistence as persistence,
            (select array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                              || case when a.attnotnull then ' not null' else '' end
                              || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
                              order by a.attnum)
               from pg_attribute a
               left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
            (select array_agg(k.conname || ' ' || pg_get_constraintdef(k.oid) order by k.conname)
               from pg_constraint k
              where k.conrelid = c.oid and k.contype not in ('n', 't')) as constraints,
            (select array_agg(pg_get_indexdef(i.indexrelid) order by i.indexrelid::regclass::text)
               from pg_index i
              where i.indrelid = c.oid
                and not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid)) as indexes,
            (select array_agg(pg_get_triggerdef(t.oid) order by t.tgname)
               from pg_trigger t
              where t.tgrelid = c.oid and not t.tgisinternal) as triggers
       from pg_class c
      where c.relnamespace = 'public'::regnamespace
        and c.relkind in ('r', 'p')
        and c.relname <> 'longshore_migrations'
      order by c.relname`,
  );
  return relations.map(describe).join('\n');
}

function describe({ name, options, persistence, columns, constraints, indexes, triggers }: Relation): string {
  const unlogged = persistence === 'u' ? 'unlogged ' : '';
  const body = [...columns, ...(constraints ?? []).map((text) => `constraint ${text}`)];
  const storage = options ? ` with (${options.join(', ')})` : '';
  const lines = [
    `${unlogged}table ${name}${storage}`,
    ...body.map((line) => `  ${line}`),
    ...(indexes ?? []),
    ...(triggers ?? []),
  ];
  return `${lines.join('\n')}\n`;
}
