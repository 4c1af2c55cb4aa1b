import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { makeDataFolder } from './data-folder.mjs';
import { stoppedAtTheEnd } from './leftovers.mjs';
import { ROOT } from '../root.mjs';

/**
 * Starts a fresh PostgreSQL exactly as the built service starts its own: the same binaries, the same settings,
 * durability on.
 * @param migrated whether it gets the service's tables
 * @returns its URL, and how to stop and remove it
 */
export async function startCluster({ migrated = false } = {}) {
  const folder = await makeDataFolder();
  try {
    const { startEmbeddedPostgres } = await import('@longshore/embedded-postgres');
    const server = await startEmbeddedPostgres({ dataDir: folder.path, log: () => undefined });
    const stop = stoppedAtTheEnd(async () => {
      await server.stop();
      await folder.remove();
    });
    try {
      if (migrated) await migrateAt(server.url);
    } catch (error) {
      await stop();
      throw error;
    }
    return { url: server.url, stop };
  } catch (error) {
    await folder.remove();
    throw error;
  }
}

async function migrateAt(url) {
  const [{ connectDatabase }, { migrate }, { ENTITIES }, { MIGRATIONS }] = await Promise.all([
    built('src/database/connect.js'),
    built('src/database/migrate.js'),
    built('src/database/entities/all.js'),
    built('migrations/all.js'),
  ]);
  const settings = { url, poolSize: 2, applicationName: 'bench', entities: ENTITIES, migrations: MIGRATIONS };
  const source = await connectDatabase(settings, { timeoutMs: 30_000 });
  try {
    await migrate(source);
  } finally {
    await source.destroy();
  }
}

function built(path) {
  return import(pathToFileURL(join(ROOT, process.env.BENCH_DIST ?? 'dist', path)).href);
}
