import { connectDatabase } from '../../../src/database/connect.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import type { DatabaseProxy } from './database-proxy.js';
import type { TestDatabase } from '../test-database.js';

/** The database as whoever comes by the proxy has it. */
export function proxied(database: TestDatabase, { url }: DatabaseProxy): TestDatabase {
  return {
    ...database,
    url,
    open: (poolSize = 5) =>
      connectDatabase(
        { url, poolSize, applicationName: 'longshore test', entities: ENTITIES, migrations: [] },
        { timeoutMs: 120_000 },
      ),
  };
}
