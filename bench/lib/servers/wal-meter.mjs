import pg from 'pg';

/**
 * Reads what PostgreSQL has written from its write-ahead log, by the extension pg_walinspect: exact, and at once, unlike the
 * statistics views.
 * @returns `around(drive)`: what `drive`, which answers how many `units` it did and perhaps `figures`, has written for each of
 * them, beside these figures. Row versions are those of all tables; `hotShare` is the part of the updates that wrote no index
 */
export async function openWalMeter(databaseUrl) {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('create extension if not exists pg_walinspect');
  // A checkpoint removes no part of the log that is to be read at the end of a round.
  await client.query("alter system set wal_keep_size = '8GB'");
  await client.query('select pg_reload_conf()');
  const position = async () =>
    (await client.query(`select pg_current_wal_flush_lsn()::text as lsn`)).rows[0].lsn;
  return {
    async around(drive) {
      const from = await position();
      const { units, figures } = await drive();
      const to = await position();
      if (to === from) return { ...figures, walBytes: 0, walRecords: 0, walPages: 0, rowVersions: 0 };
      const { rows } = await client.query(
        `select "resource_manager/record_type" as type, count::float8, fpi_size::float8 as pages,
                pg_wal_lsn_diff($2, $1)::float8 as bytes
           from pg_get_wal_stats($1, $2, true)
          where count > 0`,
        [from, to],
      );
      const sum = (wanted, figure = 'count') =>
        rows.filter(({ type }) => wanted.test(type)).reduce((all, row) => all + row[figure], 0);
      const [hot, moved] = [sum(/^Heap\/HOT_UPDATE/), sum(/^Heap\/UPDATE/)];
      return {
        ...figures,
        walBytes: (rows[0]?.bytes ?? 0) / units,
        walRecords: sum(/./) / units,
        walPages: sum(/./, 'pages') / units,
        rowVersions: (sum(/^Heap\/INSERT|^Heap2\/MULTI_INSERT/) + hot + moved) / units,
        ...(hot + moved > 0 && { hotShare: hot / (hot + moved) }),
      };
    },
    stop: () => client.end(),
  };
}
