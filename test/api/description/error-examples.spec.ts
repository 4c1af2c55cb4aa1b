import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { makeApiKey } from '../../../src/auth/api-key.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { MetricsPage } from '../../../src/common/metrics/metrics.controller.js';
import { cursorsOf } from '../../../src/feed/feed-cursors.js';
import { issueKey } from '../../support/app/api-keys.js';
import { createRun, note } from '../../support/app/feed-app.js';
import { KEYS, startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { ApiDescription, readApiDocument, type Operation } from '../../support/fuzz/api-document.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const EXAMPLE_RUN_ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const EXAMPLE_FILE_ID = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';
const EXAMPLE_CURSOR = 'AAAAAAAAAAEm6-5TRbw';

/** Bodies that an operation refuses with 400; `{}` unless given. */
const WRONG_BODIES: Readonly<Record<string, object>> = {
  patchRun: { priority: 'high' },
  labelRun: { name: '' },
  createDefinitionRun: { inputs: {} },
  rerunRun: { unknown: 1 },
  addEvent: { type: 'PROGRESS', msg: 101 },
  cancelGroup: { reason: '' },
  retryGroup: { only: 'some' },
  pauseSchedule: { note: '' },
  updateWebhook: { url: '' },
  rotateWebhookSecret: { keep_old_s: -1 },
  updateApiKey: { max_file_bytes: -1 },
};

/** Queries that an operation refuses with 400; an unknown parameter unless given. */
const WRONG_QUERIES: Readonly<Record<string, string>> = {
  deleteDefinition: '',
  cancelRun: '',
  readFeed: '',
  getFeedCursor: '',
  streamFeed: '',
};

/** Operations that may answer without the database, but for a key that has to be looked up there. */
const WITHOUT_DATABASE = ['whoami', 'sendHeartbeat', 'listWorkers'];

interface Request {
  readonly path?: string;
  readonly query?: string;
  readonly body?: unknown;
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

describe('the example of an error response is what the service answers', () => {
  const api = new ApiDescription(readApiDocument());
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  /** Responses whose example is another one, all of them in one failure. */
  const problems: string[] = [];
  afterEach(() => assert.deepEqual(problems.splice(0), []));

  const withStatus = (status: number): readonly Operation[] =>
    api.operations.filter(({ responses }) => String(status) in responses);

  /** Sends the operation with its required examples. */
  function send(operation: Operation, request: Request = {}, to = service): Promise<TestAnswer> {
    const { query = '', body = bodyOf(operation), path = filled(operation), ...options } = request;
    const headers = { ...requiredHeaders(operation), ...options.headers };
    return to.send(operation.method, path + query, { ...options, body, headers });
  }

  function assertExample(
    operation: Operation,
    status: number,
    answer: TestAnswer,
    run = EXAMPLE_RUN_ID,
  ): void {
    if (answer.status !== status) {
      problems.push(`${operation.id}: ${answer.status}, not ${status}: ${answer.text}`);
      return;
    }
    api.check(operation, answer);
    const content = operation.responses[String(answer.status)]?.content?.['application/json'];
    const text = JSON.stringify(answer.body)
      .replaceAll(run, EXAMPLE_RUN_ID)
      .replace(/(?<=cursor that still works is ')[^']+/, EXAMPLE_CURSOR);
    const example = JSON.stringify(Object(content).example);
    if (example !== text) problems.push(`${operation.id} ${answer.status}: ${example} is not ${text}`);
  }

  test('400 of every operation', async () => {
    await service.send('POST', '/definitions', {
      body: {
        id: 'word-count',
        version: '1.0.0',
        image: 'longshore/word-count',
        input_specs: { text: { type: 'string', required: true } },
      },
    });
    const ended = await steps.inState('COMPLETED');
    for (const operation of withStatus(400)) {
      const { id, body } = operation;
      const query = body === undefined ? (WRONG_QUERIES[id] ?? '?unknown=1') : '';
      const path = id === 'cancelRun' ? `/runs/${ended.id}/cancel` : filled(operation);
      const answer = await send(operation, { query, path, body: body && (WRONG_BODIES[id] ?? {}) });
      assertExample(operation, 400, answer);
    }
    await service.send('DELETE', '/definitions/word-count?all=true');
  });

  test('401 and 403', async () => {
    const bound = await issueKey(service, ['worker'], { worker_ids: ['w'] });
    for (const operation of withStatus(401))
      assertExample(operation, 401, await send(operation, { key: null }));
    for (const operation of withStatus(403)) {
      const keys = operation.id === 'getMetrics' ? [bound.key] : [KEYS.metrics];
      for (const key of keys) assertExample(operation, 403, await send(operation, { key }));
    }
  });

  test('404', async () => {
    for (const operation of withStatus(404)) {
      const query = operation.id === 'deleteDefinition' ? '?all=true' : '';
      const answer = await send(operation, { query });
      assertExample(operation, 404, answer);
    }
  });

  test('409', async () => {
    const { id } = await steps.running({}, 'worker-1');
    const body = { id: 'word-count', version: '1.0.0', image: 'longshore/word-count' };
    await service.send('POST', '/definitions', { body });
    await service.dataSource.query(
      `insert into pauses (name, reason, labels, updated_by, updated_by_name, created_at, updated_at)
       select 'p' || n, 'r', '{other}', gen_random_uuid(), 'k', now(), now() from generate_series(1, 100) n`,
    );
    const url = 'https://1.1.1.1/';
    await Promise.all(
      Array.from({ length: 100 }, () => service.send('POST', '/webhooks', { body: { url } })),
    );
    await insertFile('awaited', null);
    await service.dataSource.query(
      `insert into file_uses (kind, user_id, file_id) values ('schedule', 'nightly-report', $1)`,
      [EXAMPLE_FILE_ID],
    );
    await insertArtifact(id, 'stored', null);
    await service.app.get(Stores).main?.write(`runs/${id}/1/model`, 'another content');
    for (const operation of withStatus(409)) {
      const path = filled(operation).replaceAll(EXAMPLE_RUN_ID, id);
      const isCreation = operation.path.endsWith('/runs');
      const headers: Record<string, string> = isCreation
        ? { 'Idempotency-Key': operation.id }
        : { 'X-Worker-Id': 'worker-2', 'X-Run-Attempt': '1' };
      if (isCreation) await send(operation, { headers, body: { ...Object(bodyOf(operation)), inputs: {} } });
      const isBulk = operation.id === 'createBulkOperation';
      const request = isBulk ? { body: { ...Object(bodyOf(operation)), expect: 2 } } : {};
      const answer = await send(operation, { path, headers, ...request });
      assertExample(operation, 409, answer, id);
    }
    await service.dataSource.query('delete from pauses');
    await service.dataSource.query('delete from webhooks');
    await service.dataSource.query('delete from files');
    await service.send('DELETE', '/definitions/word-count?all=true');
  });

  test('410', async () => {
    const id = await createRun(service.send, 'word-counts');
    for (let n = 0; n < 3; n += 1) await note(service.send, id, n);
    await service.dataSource.query(
      `with d as (delete from feed_entries where topic = 'word-counts' and position <= 2)
       update feed_topics set first_position = 3 where topic = 'word-counts'`,
    );
    await insertFile('removed', '2026-01-02T03:04:05.678Z');
    await insertArtifact(id, 'removed', '2026-01-02T03:04:05.678Z');
    const ofFeed = `?topic=word-counts&after=${cursorsOf('word-counts', null)(1)}`;
    for (const operation of withStatus(410)) {
      const query = operation.path.startsWith('/feed') ? ofFeed : '';
      const path = filled(operation).replaceAll(EXAMPLE_RUN_ID, id);
      assertExample(operation, 410, await send(operation, { query, path }), id);
    }
    await service.dataSource.query('delete from files');
  });

  test('413 and 415', async () => {
    const large = `{"text":"${'x'.repeat(1_048_576)}"}`;
    for (const operation of withStatus(413))
      assertExample(operation, 413, await send(operation, { body: large }));
    for (const operation of withStatus(415)) {
      const headers = { 'Content-Type': 'text/plain' };
      assertExample(operation, 415, await send(operation, { headers }));
    }
  });

  test('429', async () => {
    const limited = await startTestApp({ env: { SERVICE_RATE_LIMIT: '1' } });
    try {
      await limited.send('GET', '/whoami');
      for (const operation of withStatus(429))
        assertExample(operation, 429, await send(operation, {}, limited));
    } finally {
      await limited.close();
    }
  });

  test('503', async () => {
    const off = await startTestApp({
      env: { SERVICE_FEED_ENABLED: 'false', SERVICE_SECRETS_KEY: '', SERVICE_FILES_URL: 'none' },
    });
    try {
      await Promise.all([off.dataSource.destroy(), off.app.get(JournalDataSource).dataSource.destroy()]);
      off.app.get(MetricsPage).readFrom(() => Promise.reject(new Error('another process does not answer')));
      for (const operation of withStatus(503)) {
        const { id } = operation;
        const query = operation.path.startsWith('/feed')
          ? '?topic=word-counts'
          : id === 'deleteDefinition'
            ? '?all=true'
            : '';
        const answer = await send(operation, { query }, off);
        if (id === 'getHealth') {
          // Its example is one of many: the body names the status of each part of the service.
          assert.equal(answer.status, 503, answer.text);
          api.check(operation, answer);
        } else if (WITHOUT_DATABASE.includes(id)) {
          assertExample(operation, 503, await send(operation, { query, key: makeApiKey('worker') }, off));
        } else {
          assertExample(operation, 503, answer);
        }
      }
    } finally {
      await off.close();
    }
  });

  const insertFile = (state: string, removedAt: string | null): Promise<unknown> =>
    service.dataSource.query(
      `insert into files (id, name, bytes, state, created_by, created_by_name, created_at, last_used_at, removed_at)
       values ($1, 'train.csv', 1, $2, gen_random_uuid(), 'k', now(), now(), $3)`,
      [EXAMPLE_FILE_ID, state, removedAt],
    );

  const insertArtifact = (runId: string, state: string, removedAt: string | null): Promise<unknown> =>
    service.dataSource.query(
      `insert into artifacts (run_id, name, attempt, bytes, etag, state, at, removed_at)
       values ($1, 'model', 1, 7, '"of the run"', $2, now(), $3)`,
      [runId, state, removedAt],
    );

  const documented = Object(readApiDocument()).paths;
  const bodyOf = ({ path, method }: Operation): unknown => {
    const examples = documented[path][method.toLowerCase()].requestBody?.content['application/json'].examples;
    return examples && Object(Object.values(examples)[0]).value;
  };
});

function requiredHeaders({ parameters }: Operation): Record<string, string> {
  return Object.fromEntries(
    parameters.flatMap(({ name, in: place, required, schema }) =>
      place === 'header' && required === true ? [[name, String(Object(schema).example)]] : [],
    ),
  );
}

/** The path with its examples, or what its descriptions name as such. */
function filled({ path, parameters }: Operation): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, wanted: string) => {
    const { schema, description = '' } = Object(parameters.find(({ name }) => name === wanted));
    return encodeURIComponent(String(schema.example ?? /For example: `(.+)`/.exec(description)?.[1]));
  });
}
