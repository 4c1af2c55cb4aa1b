import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { ROOT } from '../lib/root.mjs';

/** Settings of a server that only fills a database: nothing of it has to survive a crash before it is stopped. */
export const FILLING = {
  fsync: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '16GB',
  checkpoint_timeout: '1h',
  shared_buffers: '1GB',
  work_mem: '1GB',
  maintenance_work_mem: '2GB',
  autovacuum: 'off',
};

/**
 * Runs an action on the embedded PostgreSQL of a data folder, migrated to what the built service expects, and stops
 * the server cleanly afterwards. The service must not be running on it.
 * @param serverOptions settings on top of the service's own
 * @param action gets a function that opens one more connection, and the URL; connections are closed for it
 */
export async function withDatabase(dataDir, serverOptions, action) {
  const { startEmbeddedPostgres } = await import('@longshore/embedded-postgres');
  const server = await startEmbeddedPostgres({ dataDir, log: () => undefined, serverOptions });
  try {
    await migrated(server.url);
    return await withConnections(server.url, (connect) => action(connect, server.url));
  } finally {
    await server.stop();
  }
}

/** Hands out connections to a database and closes them when the action is over. */
export async function withConnections(url, action) {
  const clients = [];
  const connect = async () => {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => undefined);
    clients.push(client);
    await client.connect();
    return client;
  };
  try {
    return await action(connect);
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => undefined)));
  }
}

async function migrated(url) {
  const [{ connectDatabase }, { migrate }, { ENTITIES }, { MIGRATIONS }] = await Promise.all(
    [
      'src/database/connect.js',
      'src/database/migrate.js',
      'src/database/entities/all.js',
      'migrations/all.js',
    ].map(built),
  );
  const dataSource = await connectDatabase(
    { url, poolSize: 1, applicationName: 'longshore seed', entities: ENTITIES, migrations: MIGRATIONS },
    { timeoutMs: 30_000 },
  );
  try {
    await migrate(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

/** Imports a file of the built service. */
async function built(path) {
  await import('reflect-metadata');
  return import(pathToFileURL(join(ROOT, process.env.BENCH_DIST ?? 'dist', path)).href);
}
