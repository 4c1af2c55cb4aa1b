import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { checkSessions } from '../../../src/database/failover/check-sessions.js';
import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { PgBouncer, skipWithoutPgBouncer } from '../../support/postgres/pgbouncer.js';
import { skipFor } from '../../support/skip.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const SHOW = `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
  current_setting('idle_in_transaction_session_timeout') as idle, current_setting('enable_seqscan') as scans`;

/** Orders in which PgBouncer gives its connections to clients. */
const PGBOUNCERS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'its defaults': {},
  'connections in turn': { server_round_robin: 1 },
  'one connection': { default_pool_size: 1 },
};

async function open(url: string) {
  const settings = {
    url,
    poolSize: 2,
    applicationName: 'spec of poolers',
    entities: ENTITIES,
    migrations: [],
  };
  return connectDatabase(settings, { timeoutMs: 120_000 });
}

describe('PgBouncer', skipFor(skipWithoutPgBouncer), () => {
  const database = useTestDatabase();

  async function through(
    settings: Readonly<Record<string, string | number>>,
    work: (url: string) => Promise<void>,
  ): Promise<void> {
    const bouncer = await PgBouncer.start(database.url, settings);
    try {
      await work(bouncer.url);
    } finally {
      await bouncer.stop();
    }
  }

  it('in session mode keeps every timeout of every connection', async () => {
    await through({ pool_mode: 'session' }, async (url) => {
      const source = await open(url);
      const journal = new JournalDataSource(source);
      try {
        await checkSessions(source);
        const [ofPool] = await rows(source, SHOW);
        assert.deepEqual(ofPool, { statement: '15s', lock: '3s', idle: '1min', scans: 'on' });
        const [ofJournal] = await rows(await journal.open(), SHOW);
        assert.deepEqual(ofJournal, { statement: '15s', lock: '3s', idle: '2s', scans: 'off' });
      } finally {
        await journal.close();
        await source.destroy();
      }
    });
  });

  for (const mode of ['transaction', 'statement']) {
    for (const [name, settings] of Object.entries(PGBOUNCERS)) {
      it(`in ${mode} mode with ${name} is refused with one line that says what to change`, async () => {
        await through({ pool_mode: mode, ...settings }, async (url) => {
          const source = await open(url);
          try {
            // Other clients have opened connections of the pooler, and used different ones last.
            await Promise.all([1, 2].map(() => execute(source, 'select pg_sleep(0.1)')));
            await assert.rejects(checkSessions(source), (error) => {
              assert.ok(error instanceof SettingsError);
              assert.equal(error.problems.length, 1);
              assert.match(error.message, /^DATABASE_URL: .*pool_mode = session/);
              return true;
            });
          } finally {
            await source.destroy();
          }
        });
      });
    }
  }
});
