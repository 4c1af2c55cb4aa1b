import 'reflect-metadata';
import { DataSource, type DataSourceOptions, type Migration, type MigrationInterface } from 'typeorm';
import { MIGRATIONS } from '../../migrations/all.js';
import { checkSessions } from '../database/failover/check-sessions.js';
import { dataSourceOptions } from '../database/data-source.js';
import { ENTITIES } from '../database/entities/all.js';
import { underMigrationLock, withoutTimeouts } from '../database/migrate.js';
import { loadExtensions } from './extensions/load-extensions.js';
import { createLog } from '../common/logging/logger.js';
import { openDatabaseServer } from './open-database.js';
import { CleanupStack } from './cleanup-stack.js';
import { SettingsModule } from '../config/settings.module.js';

/** Runs migrations under the migration lock, and stops the embedded PostgreSQL that it uses. */
class CliDataSource extends DataSource {
  constructor(
    options: DataSourceOptions,
    private readonly cleanup: CleanupStack,
  ) {
    super(options);
  }

  override async initialize(): Promise<this> {
    try {
      await checkSessions(this);
      return await super.initialize();
    } catch (error) {
      await this.cleanup.close();
      throw error;
    }
  }

  /** Runs the service's own migrations before those of extensions, as the service does. */
  override runMigrations(options?: Parameters<DataSource['runMigrations']>[0]): Promise<Migration[]> {
    return underMigrationLock(this, {}, async () => {
      const { migrations } = this;
      try {
        Object.assign(this, { migrations: migrations.filter(isOwn) });
        const own = await super.runMigrations(options);
        Object.assign(this, { migrations });
        return [...own, ...(await super.runMigrations(options))];
      } finally {
        Object.assign(this, { migrations });
      }
    });
  }

  override undoLastMigration(options?: Parameters<DataSource['undoLastMigration']>[0]): Promise<void> {
    return underMigrationLock(this, {}, () => super.undoLastMigration(options));
  }

  override async destroy(): Promise<void> {
    await super.destroy();
    await this.cleanup.close();
  }
}

function isOwn(migration: MigrationInterface): boolean {
  return MIGRATIONS.some((type) => migration instanceof type);
}

/** Uses the settings of the service, and the migrations of extensions. */
async function open(): Promise<CliDataSource> {
  const { settings } = await SettingsModule.load([]);
  const log = createLog(settings);
  const { entities, migrations } = await loadExtensions(settings);
  const cleanup = new CleanupStack();
  const url = await openDatabaseServer({ settings, log }, cleanup);
  const options = dataSourceOptions({
    url,
    poolSize: 2,
    applicationName: 'longshore migrations',
    entities: [...ENTITIES, ...entities],
    migrations: [...MIGRATIONS, ...migrations],
  });
  return new CliDataSource({ ...withoutTimeouts(options), logger: 'advanced-console' }, cleanup);
}

/** The data source of the commands of TypeORM (`npm run migration:run`, `migration:revert`, `migration:show`, ...). */
export const cliDataSource = await open();
