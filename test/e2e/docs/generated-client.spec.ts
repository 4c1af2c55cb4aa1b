import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { NO_OPENAPI_TOOLS, OPENAPI_BIN, OPENAPI_TOOLS } from '../../support/openapi/openapi-tools.js';
import { PROJECT } from '../../support/service-process.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';

const run = promisify(execFile);

/** What a generated operation takes. */
interface Call {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

// oxlint-disable-next-line typescript/no-explicit-any -- the client is generated while the test runs
type Operation = (call: Call) => Promise<{ data?: any; error?: any; response: Response }>;

/** Generates a client from the API description with a public generator, type checks and compiles it. */
async function generateClient(
  service: TestApp,
  folder: string,
): Promise<Readonly<Record<string, Operation>>> {
  const source = join(folder, 'source');
  await run(join(OPENAPI_BIN, 'openapi-ts'), [
    '-i',
    join(PROJECT, 'openapi.json'),
    '-o',
    source,
    '--no-log-file',
    '-s',
  ]);
  const files = (await readdir(source, { recursive: true })).filter((name) => name.endsWith('.ts'));
  const compiled = join(folder, 'compiled');
  await mkdir(compiled);
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  const options = '--ignoreConfig --module nodenext --target es2023 --lib es2023,dom,dom.iterable --strict';
  const paths = ['--rootDir', source, '--outDir', compiled, ...files.map((name) => join(source, name))];
  await run(join(OPENAPI_BIN, 'tsc'), options.split(' ').concat('--skipLibCheck', '--types', 'node', paths));
  const { client } = await import(pathToFileURL(join(compiled, 'client.gen.js')).href);
  client.setConfig({ baseUrl: service.url, auth: () => KEYS.admin });
  return import(pathToFileURL(join(compiled, 'sdk.gen.js')).href);
}

describe('a client that a public generator makes from /docs-json', NO_OPENAPI_TOOLS, () => {
  let service: TestApp;
  let folder: string;
  let api: Readonly<Record<string, Operation>>;

  beforeAll(async () => {
    service = await startTestApp();
    // Inside the project, so that the generated code's types find Node's.
    await mkdir(join(OPENAPI_TOOLS, '.build'), { recursive: true });
    folder = await mkdtemp(join(OPENAPI_TOOLS, '.build', 'generated-client-'));
    api = await generateClient(service, folder);
  });
  afterAll(async () => {
    await service.close();
    await rm(folder, { recursive: true, force: true });
  });

  // oxlint-disable-next-line typescript/no-explicit-any -- answers of any shape
  const call = async (operation: string, given: Call = {}): Promise<any> => {
    const known = api[operation];
    assert.ok(known, `the client has an operation ${operation}`);
    const { data, error, response } = await known(given);
    assert.equal(error, undefined, `${operation} answers ${response.status}: ${JSON.stringify(error)}`);
    return data;
  };

  test('goes through the life of a run', async () => {
    const created = await call('createRun', {
      body: {
        image: 'image',
        inputs: { a: 1 },
        retry_policy: { max_attempts: 2 },
        event_delivery: { topic: 't' },
      },
      headers: { 'Idempotency-Key': 'once' },
    });
    const worker_id = 'generated/1';
    const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
    await call('sendHeartbeat', { body: { worker_id, resources, tags: [] } });
    const { ops } = await call('claimRuns', { path: { worker_id } });
    assert.deepEqual(
      ops.map(({ id, attempt }: { id: string; attempt: number }) => [id, attempt]),
      [[created.id, 1]],
    );
    const path = { id: created.id };
    const headers = { 'X-Worker-Id': worker_id, 'X-Run-Attempt': '1' };
    await call('addEvent', { path, headers, body: { type: 'STARTED', msg: '', payload: { worker_id } } });
    await call('addEvent', { path, headers, body: { type: 'PROGRESS', msg: 50 } });
    const ended = await call('addEvent', {
      path,
      headers,
      body: { type: 'COMPLETED', msg: '', payload: { outputs: { b: 2 } } },
    });
    assert.equal(ended.state, 'COMPLETED');
    assert.deepEqual((await call('getRun', { path })).outputs, { b: 2 });
    assert.equal((await call('pollEvents', { path, query: { after: 0 } })).events.length, 2);
    assert.equal((await call('listAttempts', { path })).length, 1);
    assert.equal((await call('retryRun', { path })).current_attempt, 2);
    assert.equal((await call('cancelRun', { path })).state, 'CANCELLED');
    assert.equal((await call('listWorkers')).length, 1);
  });

  test('lists with filters and cursors, and starts runs of definitions', async () => {
    const definition = {
      id: 'd',
      version: '1',
      image: 'i',
      input_specs: { n: { type: 'integer', required: true } },
    };
    await call('upsertDefinition', { body: definition });
    const path = { name: 'd' };
    const made = await call('createDefinitionRun', {
      path,
      query: { version: '1' },
      body: { inputs: { n: 1 } },
    });
    const listed = await call('listRuns', {
      query: { op_definition: 'd', state: 'PENDING', 'created[gte]': 0, include_events: false, limit: 5 },
    });
    assert.deepEqual(
      listed.data.map(({ id }: { id: string }) => id),
      [made.id],
    );
    assert.equal((await call('patchRun', { path: { id: made.id }, body: { priority: 9 } })).priority, 9);
    assert.equal((await call('listAudit'))[0].after.priority, 9);
  });

  test('reads errors in their one shape', async () => {
    const { error, response } =
      (await api['getRun']?.({ path: { id: 'none' } })) ?? assert.fail('no operation');
    assert.equal(response.status, 404);
    assert.deepEqual(error, { detail: "OpRun 'none' not found" });
  });
});
