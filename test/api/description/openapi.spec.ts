import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import {
  EXAMPLE_API_KEY_ID,
  EXAMPLE_FILE_ID,
  EXAMPLE_GROUP_ID,
  EXAMPLE_WEBHOOK_ID,
} from '../../../src/common/http/api-examples.js';
import {
  ApiDescription,
  readApiDocument,
  type ApiDocument,
  type Operation,
} from '../../support/fuzz/api-document.js';
import { issueKey } from '../../support/app/api-keys.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

type Json = Readonly<Record<string, unknown>>;

/** Schemas that the specification names. */
const NAMES = [
  'AddEventRequest',
  'Constraints',
  'Error',
  'EventDelivery',
  'OpAttempt',
  'OpDefinition',
  'OpDefinitionCreate',
  'OpRun',
  'OpRunCreate',
  'OpRunUpdate',
  'RetryPolicy',
  'Worker',
  'WorkerOpRun',
];
const EXAMPLE_RUN_ID = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const TEXTS = [
  'a',
  'A_1',
  'é',
  '😀',
  'a b',
  'a\n',
  '\u007f',
  '\u0085',
  '\u00a0',
  '\u200b',
  '\u2028',
  'a/b',
  '-a',
];

describe('the API description', () => {
  const service = useTestApp();
  let document: ApiDocument;
  let api: ApiDescription;

  beforeAll(() => {
    document = readApiDocument();
    api = new ApiDescription(document);
  });

  test('names the schemas of the specification, describes every schema and uses it', () => {
    const { schemas } = document.components;
    for (const name of NAMES) assert.ok(schemas[name], name);
    const references = new Set([...objectsIn(document)].map(({ $ref }) => $ref));
    for (const [name, schema] of Object.entries(schemas)) {
      assert.ok(Object(schema).description, `${name} has a description`);
      assert.ok(references.has(`#/components/schemas/${name}`), `${name} is used`);
    }
  });

  test('has no schema that generators misread', () => {
    for (const part of objectsIn(document)) {
      const shown = JSON.stringify(part).slice(0, 200);
      assert.notEqual(Object(part['allOf']).length, 1, `allOf with one member: ${shown}`);
      if (part['type'] === 'integer') assert.ok(!('minLength' in part), `length of an integer: ${shown}`);
      assert.ok(!('nullable' in part), `nullable is not of OpenAPI 3.1: ${shown}`);
    }
  });

  test('describes every operation and every response, and gives an example of every body and path parameter', () => {
    assert.deepEqual(Object(document).servers, [{ url: '.' }]);
    for (const { id, parameters, responses, path, method } of api.operations) {
      const { summary, description, requestBody } = Object(document.paths[path])[method.toLowerCase()];
      assert.ok(summary && description, `${id} has a summary and a description`);
      for (const [status, response] of Object.entries(responses)) {
        assert.ok(Object(response).description, `${id} describes ${status}`);
        assert.ok(status === '408' || response.headers?.['X-Request-Id'], `${id} ${status}: X-Request-Id`);
      }
      assert.ok(responses['408'], `${id} describes 408`);
      // Swagger UI fills its form with them.
      for (const { name, schema, required } of parameters) {
        if (required !== true) assert.ok(!('example' in schema), `${id}: example of the optional ${name}`);
      }
      for (const { name, schema } of parameters.filter((parameter) => parameter.in === 'path')) {
        assert.equal('example' in schema, method !== 'DELETE', `${id}: example of ${name}`);
      }
      if (requestBody) {
        assert.ok(
          Object.keys(requestBody.content['application/json'].examples).length > 0,
          `${id}: examples`,
        );
      }
    }
  });

  test('shows the basic operations before those on many runs', () => {
    const paths = Object.keys(document.paths);
    const bulk = paths.filter((path) => path.includes('/batch') || path === '/workers/{worker_id}/events');
    assert.equal(bulk.length, 4);
    assert.equal(paths[0], '/runs');
    for (const path of ['/runs/{id}/events', '/definitions', '/feed', '/workers/{worker_id}/claim']) {
      assert.ok(paths.indexOf(path) < Math.min(...bulk.map((name) => paths.indexOf(name))), path);
    }
  });

  test('says 403 exactly where a scope or a key that is bound to workers is refused', async () => {
    const bound = await issueKey(service, ['worker'], { worker_ids: ['w'] });
    for (const operation of api.operations) {
      const { id, method, responses, secured } = operation;
      const statuses = [];
      for (const key of secured ? [KEYS.client, KEYS.worker, KEYS.metrics, bound.key] : []) {
        // An unknown parameter keeps an operation that takes the key from doing anything.
        const target = `${filled(operation)}?unknown=1`;
        statuses.push((await service.send(method, target, { key })).status);
      }
      assert.equal('403' in responses, statuses.includes(403), `${id}: ${statuses.join(', ')}`);
    }
  });

  test('says 404 neither of a claim nor of the events of a worker', async () => {
    for (const path of ['/workers/unknown/claim', '/workers/unknown/events']) {
      const body = path.endsWith('events') ? { events: [{}] } : undefined;
      assert.equal((await service.send('POST', path, { body })).status, 200);
    }
    for (const { id, responses } of api.operations) {
      if (['claimRuns', 'reportEvents'].includes(id)) assert.ok(!('404' in responses), id);
    }
  });

  test('has patterns that compile without the u flag and agree with the service', async () => {
    const patterns = [...objectsIn(document)].flatMap(({ pattern }) =>
      typeof pattern === 'string' ? [pattern] : [],
    );
    for (const pattern of patterns) {
      assert.doesNotMatch(pattern, /\\p/i);
      assert.ok(new RegExp(pattern));
    }
    const run = (await service.send('POST', '/runs', { body: { image: 'image' } })).body;
    const requests: readonly (readonly [string, (text: string) => readonly [string, object]])[] = [
      ['OpRunCreate.image', (text) => ['/runs', { image: text }]],
      ['EventDeliveryInput.topic', (text) => ['/runs', { image: 'i', event_delivery: { topic: text } }]],
      ['OpDefinitionCreate.id', (text) => ['/definitions', { id: text, version: '1', image: 'i' }]],
      ['ApiKeyCreate.name', (text) => ['/api-keys', { name: text, scopes: ['client'] }]],
      [
        'HeartbeatRequest.worker_id',
        (text) => [
          '/workers/heartbeat',
          { worker_id: text, resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] },
        ],
      ],
      ['CustomEvent.type', (text) => [`/runs/${run.id}/events`, { type: text, msg: '' }]],
    ];
    for (const [place, request] of requests) {
      const [name = '', field = ''] = place.split('.');
      const pattern = document.components.schemas[name]?.properties?.[field]?.pattern;
      assert.ok(pattern, place);
      for (const text of TEXTS) {
        const [path, body] = request(text);
        const { status, text: answer } = await service.send('POST', path, { body });
        assert.equal(
          new RegExp(pattern).test(text),
          status < 300,
          `${place} ${JSON.stringify(text)}: ${answer}`,
        );
      }
    }
  });

  test('has examples that the service takes', async () => {
    await service.send('POST', '/workers/heartbeat', { body: exampleOf('sendHeartbeat', 'idle') });
    await service.send('POST', '/definitions', { body: exampleOf('upsertDefinition', 'word-count') });
    const { id: webhookId } = (
      await service.send('POST', '/webhooks', { body: exampleOf('createWebhook', 'failures of a team') })
    ).body;
    const { id: groupId } = (
      await service.send('POST', '/groups', { body: exampleOf('createGroup', 'three steps') })
    ).body;
    const { id: fileId } = (
      await service.send('POST', '/files', { body: exampleOf('createFile', 'a table') })
    ).body;
    await service.dataSource.query(`update files set state = 'stored'`);
    const { id: keyId } = await issueKey(service, ['client']);
    for (const operation of api.operations) {
      for (const [name, example] of Object.entries(examplesOf(operation))) {
        const runId = await claimedRun();
        if (operation.id === 'rerunRun') await service.send('POST', `/runs/${runId}/cancel`);
        const body: unknown = JSON.parse(JSON.stringify(example.value).replaceAll(EXAMPLE_RUN_ID, runId));
        const path = filled(operation)
          .replaceAll(EXAMPLE_RUN_ID, runId)
          .replaceAll(EXAMPLE_GROUP_ID, groupId)
          .replaceAll(EXAMPLE_FILE_ID, fileId)
          .replaceAll(EXAMPLE_API_KEY_ID, keyId)
          .replaceAll(EXAMPLE_WEBHOOK_ID, webhookId);
        const headers = Object.fromEntries(
          operation.parameters.flatMap(({ name: header, in: place, schema }) =>
            place === 'header' && 'example' in schema ? [[header, String(schema.example)]] : [],
          ),
        );
        const answer = await service.send(operation.method, path, { body, headers });
        const shown = `${operation.id} ${name}: ${answer.status} ${answer.text}`;
        assert.ok(answer.status < 300, shown);
        api.check(operation, answer);
        assert.ok(api.takesBody(operation, body, operation.id === 'sendHeartbeat'), shown);
        const results: readonly { status: number }[] = answer.body.results ?? [];
        assert.ok(
          results.every(({ status }) => status < 300),
          shown,
        );
      }
    }
  });

  const examplesOf = ({ path, method }: Operation): Readonly<Record<string, { value: unknown }>> =>
    Object(document.paths[path])[method.toLowerCase()].requestBody?.content['application/json'].examples ??
    {};

  const exampleOf = (id: string, name: string): unknown =>
    examplesOf(api.operations.find((operation) => operation.id === id) ?? assert.fail(id))[name]?.value;

  /** A run that the worker of the examples has claimed. Each stands before those that the examples leave pending. */
  let priority = 1000;
  const claimedRun = async (): Promise<string> => {
    priority += 1;
    const { id } = (await service.send('POST', '/runs', { body: { image: 'image', priority } })).body;
    const { ops } = (await service.send('POST', '/workers/worker-1/claim')).body;
    assert.equal(ops[0]?.id, id);
    return id;
  };
});

/** The path of an operation with its examples. */
function filled({ path, parameters }: Operation): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, wanted: string) => {
    const schema = parameters.find(({ name }) => name === wanted)?.schema;
    return encodeURIComponent(String(Object(schema).example ?? 'none'));
  });
}

/** Every object in a document, but for examples, which are data. */
function* objectsIn(value: unknown): Generator<Json> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield Object(value);
  for (const [key, inner] of Object.entries(value)) {
    if (!['example', 'examples'].includes(key)) yield* objectsIn(inner);
  }
}
