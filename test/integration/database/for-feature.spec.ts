import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Injectable, Module, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { Column, Entity, PrimaryColumn, Repository } from 'typeorm';
import { AppModule } from '../../../src/app.module.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { WorkerDrainEntity } from '../../../src/database/entities/worker.entity.js';
import { createLog } from '../../../src/common/logging/logger.js';
import { SettingsModule } from '../../../src/config/settings.module.js';
import { openTestDatabase } from '../../support/test-database.js';

const CONFIGURATION = await SettingsModule.load(['--port', '0', '--log-level', 'error'], {
  SERVICE_API_KEYS: 'admin:admin-key-of-the-test',
});

@Entity('notes')
class NoteEntity {
  @PrimaryColumn('integer') id: number;
  @Column('text') text: string;
}

@Injectable()
class Notes {
  constructor(
    @InjectRepository(NoteEntity) readonly notes: Repository<NoteEntity>,
    @InjectRepository(WorkerDrainEntity) readonly drains: Repository<WorkerDrainEntity>,
  ) {}
}

@Module({
  imports: [TypeOrmModule.forFeature([NoteEntity, WorkerDrainEntity])],
  providers: [Notes],
})
class NotesModule {}

/** Starts the service together with a module that needs `NoteEntity`. */
async function start(
  entities: readonly (new () => object)[],
  use: (app: INestApplicationContext) => Promise<void>,
): Promise<void> {
  const database = await openTestDatabase({ entities });
  @Module({
    imports: [
      AppModule.register({
        ...CONFIGURATION,
        log: createLog(CONFIGURATION.settings),
        dataSource: database.dataSource,
      }),
      NotesModule,
    ],
  })
  class ExtendedModule {}
  try {
    const app = await NestFactory.create(ExtendedModule, { logger: false, abortOnError: false });
    await app.init();
    await use(app);
    await app.close();
  } finally {
    await database.close();
  }
}

describe('TypeOrmModule.forFeature', () => {
  it('gives a module repositories of its own entities and of the shared ones', () =>
    start([...ENTITIES, NoteEntity], async (app) => {
      const { notes, drains } = app.get(Notes);
      await notes.query('create table notes (id integer primary key, text text not null)');
      await notes.insert({ id: 1, text: 'kept' });
      assert.deepEqual({ ...(await notes.findOneByOrFail({ id: 1 })) }, { id: 1, text: 'kept' });
      assert.equal(await drains.count(), 0);
    }));

  it('stops the start with the name of an entity that the data source does not have', () =>
    assert.rejects(
      start(ENTITIES, () => assert.fail('it started')),
      /TypeOrmModule\.forFeature: the data source was opened without the entity NoteEntity/,
    ));
});
