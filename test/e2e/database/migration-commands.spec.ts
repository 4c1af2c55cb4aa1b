import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { MIGRATIONS } from '../../../migrations/all.js';
import { rows } from '../../../src/database/sql/sql.js';
import { PROJECT } from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const NAMES = MIGRATIONS.map(({ name }) => name);

/** An extension whose migration is older than the service's and refers to a table of theirs. */
const NOTES = `
import { Module } from '@nestjs/common';
export class NotesModule {}
Module({ providers: [] })(NotesModule);
export class AddNotes1600000000000 {
  async up(queryRunner) {
    await queryRunner.query('create table notes (run_id uuid primary key references runs on delete cascade)');
  }
  async down(queryRunner) {
    await queryRunner.query('drop table notes');
  }
}
export const migrations = [AddNotes1600000000000];
`;

interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** Runs what the script of package.json runs after the build. */
async function typeorm(command: string, env: NodeJS.ProcessEnv, ...more: string[]): Promise<Ended> {
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8'));
  const [, line = ''] = String(scripts[`migration:${command}`]).split(' && typeorm ');
  const child = spawn(process.execPath, ['node_modules/typeorm/cli.js', ...line.split(' '), ...more], {
    env: { PATH: process.env['PATH'], NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((done) => child.once('close', done));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await ended, output: out + err };
}

/** The lines of `migration:show`. */
async function shown(env: NodeJS.ProcessEnv): Promise<string[]> {
  const { output } = await typeorm('show', env);
  return [...output.matchAll(/\[( |X)\] (?:\d+ )?(\w+)/g)].map(([, mark, name]) => `[${mark}] ${name}`);
}

describe('the migration commands', () => {
  let database: TestDatabase;
  let dataDir: string;

  beforeAll(async () => {
    database = await openTestDatabase({ migrations: [], entities: [] });
    dataDir = await mkdtemp(join(tmpdir(), 'longshore-migrations-'));
  });

  afterAll(async () => {
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  it('run, show and undo the migrations of the database of DATABASE_URL', async () => {
    const env = { DATABASE_URL: database.url };
    const ran = await typeorm('run', env);
    assert.equal(ran.code, 0, ran.output);
    assert.deepEqual(
      await shown(env),
      NAMES.map((name) => `[X] ${name}`),
    );

    const reverted = await typeorm('revert', env);
    assert.equal(reverted.code, 0, reverted.output);
    const last = NAMES.at(-1) ?? '';
    assert.deepEqual(await shown(env), [...NAMES.slice(0, -1).map((name) => `[X] ${name}`), `[ ] ${last}`]);
    assert.equal((await typeorm('run', env)).code, 0);
  });

  it('find nothing to generate on an up-to-date schema', async () => {
    const env = { DATABASE_URL: database.url };
    assert.equal((await typeorm('run', env)).code, 0);
    const generated = await typeorm('generate', env, join(dataDir, 'nothing'));
    assert.match(generated.output, /No changes in database schema were found/);
  });

  it("run the service's own migrations before those of an extension, whatever their timestamps", async () => {
    // Inside the project, so that its packages are found from there.
    await mkdir(join(PROJECT, '.build'), { recursive: true });
    const folder = await mkdtemp(join(PROJECT, '.build', 'migrations-'));
    const empty = await openTestDatabase({ migrations: [], entities: [] });
    try {
      const file = join(folder, 'notes.mjs');
      await writeFile(file, NOTES);
      const ran = await typeorm('run', { DATABASE_URL: empty.url, SERVICE_EXTENSIONS: file });
      assert.equal(ran.code, 0, ran.output);
      const recorded = await rows<{ name: string }>(
        empty.dataSource,
        'select name from longshore_migrations order by id',
      );
      assert.deepEqual(
        recorded.map(({ name }) => name),
        [...NAMES, 'AddNotes1600000000000'],
      );
    } finally {
      await empty.close();
      await rm(folder, { recursive: true });
    }
  });

  it('start the embedded PostgreSQL without DATABASE_URL, and stop it', async () => {
    const ran = await typeorm('run', { SERVICE_DATA_DIR: dataDir });
    assert.equal(ran.code, 0, ran.output);
    assert.deepEqual(
      await shown({ SERVICE_DATA_DIR: dataDir }),
      NAMES.map((name) => `[X] ${name}`),
    );
    assert.equal(existsSync(join(dataDir, 'postgres', 'postmaster.pid')), false);
  });

  it('end with the reason when the settings are wrong', async () => {
    const { code, output } = await typeorm('show', { DATABASE_URL: database.url, SERVICE_DB_POOL_SIZE: 'x' });
    assert.notEqual(code, 0);
    assert.match(output, /SERVICE_DB_POOL_SIZE must be/);
  });
});
