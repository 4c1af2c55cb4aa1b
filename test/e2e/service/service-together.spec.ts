import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterAll, describe, it } from 'vitest';
import { Client } from 'pg';
import {
  launchService,
  whenListening,
  type ServiceOptions,
  type ServiceProcess,
} from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';
import { databaseUrl, serverUrl } from '../../support/test-database.js';

/** Two services that are started at the same moment. */
async function startTwo(
  first: ServiceOptions,
  second: ServiceOptions,
): Promise<[ServiceProcess, ServiceProcess]> {
  const launched = await Promise.all([launchService(first), launchService(second)]);
  return Promise.all([whenListening(launched[0]), whenListening(launched[1])]);
}

/** Each sees at once what the other one did. */
async function assertOneQueue([left, right]: readonly [ServiceProcess, ServiceProcess]): Promise<void> {
  for (const [writer, reader] of [
    [left, right],
    [right, left],
  ] as const) {
    const created = await senderTo(writer.url, writer.adminKey)('POST', '/runs', { body: { image: 'x' } });
    assert.equal(created.status, 201, created.text);
    const read = await senderTo(reader.url, reader.adminKey)('GET', `/runs/${created.body.id}`);
    assert.equal(read.status, 200, read.text);
  }
}

describe('two services that are started at once', () => {
  const databases: string[] = [];

  afterAll(async () => {
    const client = new Client({ connectionString: databaseUrl(serverUrl(), 'postgres') });
    await client.connect();
    for (const name of databases) await client.query(`drop database if exists ${name} with (force)`);
    await client.end();
  });

  async function emptyDatabase(): Promise<string> {
    const name = `test_${randomBytes(8).toString('hex')}`;
    const client = new Client({ connectionString: databaseUrl(serverUrl(), 'postgres') });
    await client.connect();
    await client.query(`create database ${name}`);
    await client.end();
    databases.push(name);
    return databaseUrl(serverUrl(), name);
  }

  it('share an empty database of DATABASE_URL: one migrates it, both serve', async () => {
    const env = { DATABASE_URL: await emptyDatabase(), SERVICE_API_KEYS: 'admin:together-key-of-the-tests' };
    const services = await startTwo({ env }, { env });
    await assertOneQueue(services);
    const migrated = services.filter(({ stdout }) => stdout.includes('"migrated the database"'));
    assert.equal(migrated.length, 1);
    assert.deepEqual(await Promise.all(services.map((service) => service.stop())), [0, 0]);
  });
});
