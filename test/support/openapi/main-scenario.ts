import assert from 'node:assert/strict';
import type { ApiDocument } from '../fuzz/api-document.js';
import type { Send, TestAnswer } from '../app/test-app.js';

/** What an operation is called with. */
export interface Call {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | number>>;
}

/** Calls an operation by its id and gives the body of its answer. */
// oxlint-disable-next-line typescript/no-explicit-any -- answers of any shape
export type CallOperation = (operation: string, call?: Call) => Promise<any>;

/** Goes through the life of a run, from its definition to its feed. @param name makes it differ from other scenarios */
export async function playMainScenario(name: string, call: CallOperation): Promise<void> {
  const topic = `${name} é`;
  const definition = {
    id: name,
    version: '1',
    image: 'registry.example:5000/tools/count@sha256:0123',
    input_specs: { text: { type: 'string', required: true, default: null } },
    retry_policy: { max_attempts: 2 },
    constraints: null,
    event_delivery: { topic },
  };
  assert.equal((await call('upsertDefinition', { body: definition })).version, '1');
  const ofDefinition = await call('createDefinitionRun', {
    path: { name },
    query: { version: '1' },
    body: { inputs: { text: 'to be' }, priority: null },
  });
  assert.equal(ofDefinition.op_definition, name);
  const created = await call('createRun', {
    body: {
      image: 'image',
      priority: 5,
      inputs: { a: [1, null] },
      outputs: null,
      constraints: { cpu: 1, ram_mb: 100, gpu_id: null },
      retry_policy: { grow: { ram_mb: { factor: 1.5, max: 400, on: null } } },
      timeouts: null,
      mounts: [{ scratch_mb: 100, path: '/scratch', volume: null }],
      event_delivery: { topic, attributes: { team: 'search' } },
    },
    headers: { 'Idempotency-Key': name },
  });
  const worker_id = `${name}-1`;
  const resources = { cpu_cores: 4, ram_mb: 4000, gpus: [{ id: 0, vram_mb: 8000, tags: null }] };
  await call('sendHeartbeat', {
    body: { worker_id, resources, tags: ['linux'], capabilities: ['scratch'], running_ops: null },
  });
  const { ops } = await call('claimRuns', { path: { worker_id }, query: { max: 1 } });
  assert.deepEqual(
    ops.map(({ id }: { id: string }) => id),
    [created.id],
  );
  const running_ops = [{ id: created.id, image: 'image', inputs: {}, constraints: {} }];
  await call('sendHeartbeat', { body: { worker_id, resources, tags: [], running_ops } });
  const path = { id: created.id };
  const headers = { 'X-Worker-Id': worker_id, 'X-Run-Attempt': 1 };
  const report = (body: object): Promise<{ state: string }> => call('addEvent', { path, headers, body });
  assert.equal(
    (await report({ type: 'STARTED', msg: 'started', payload: { worker_id, gpu_id: null } })).state,
    'RUNNING',
  );
  await report({ type: 'PROGRESS', msg: 40 });
  await report({ type: 'CHECKPOINT_1', msg: 7, payload: null });
  const completed = await report({ type: 'COMPLETED', msg: '', payload: { outputs: { words: 6 } } });
  assert.equal(completed.state, 'COMPLETED');
  assert.deepEqual((await call('getRun', { path })).outputs, { words: 6 });
  assert.equal((await call('listRuns', { query: { topic, limit: 5 } })).data.length, 2);
  assert.equal((await call('pollEvents', { path, query: { after: 0 } })).events.length, 3);
  assert.equal((await call('listAttempts', { path })).length, 1);
  const page = await call('readFeed', { query: { topic, limit: 3 } });
  assert.equal(page.events.length, 3);
  const next = await call('readFeed', { query: { topic, after: page.next_cursor } });
  assert.equal(next.events.at(-1).type, 'COMPLETED');
  assert.equal((await call('retryRun', { path })).current_attempt, 2);
  assert.equal((await call('cancelRun', { path })).state, 'CANCELLED');
  assert.equal((await call('patchRun', { path, body: { priority: 1, state: null } })).priority, 1);
  const labels = { team: 'vision', draft: null };
  assert.deepEqual((await call('labelRun', { path, body: { labels } })).labels, { team: 'vision' });
  const started = await call('createBulkOperation', {
    body: { action: 'labels', filter: { topic }, value: { draft: null }, reason: null },
  });
  assert.equal(started.matched, 2);
  const operation = await call('getBulkOperation', { path: { id: started.id } });
  assert.equal(operation.done + operation.remaining, 2);
  assert.equal((await call('stopBulkOperation', { path: { id: started.id } })).matched, 2);
  const workers: readonly { id: string }[] = await call('listWorkers');
  assert.ok(workers.some(({ id }) => id === worker_id));
}

/** Requests that the service refuses with 400 because of their shape. */
export const INVALID_CALLS: readonly (readonly [string, Call])[] = [
  ['createRun', { body: {} }],
  ['createRun', { body: { image: 'two words' } }],
  ['createRun', { body: { image: 'a\u0085b' } }],
  ['createRun', { body: { image: 'image', inputs: [] } }],
  ['createRun', { body: { image: 'image', event_delivery: { topic: 'a\nb' } } }],
  ['createRun', { body: { image: 'image', retry_policy: { max_attempts: 'two' } } }],
  ['createRun', { body: { image: 'image', retry_policy: { grow: { ram_mb: { factor: 2 } } } } }],
  ['sendHeartbeat', { body: { worker_id: ' ', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] } }],
  ['upsertDefinition', { body: { id: 'a/b', version: '1', image: 'image' } }],
  ['createBulkOperation', { body: { action: 'pause', filter: {} } }],
  ['addEvent', { body: { type: 'STARTED', msg: '' } }],
  ['addEvent', { body: { type: 'STARTED', msg: '', payload: {} } }],
  ['addEvent', { body: { type: 'PROGRESS', msg: 'half' } }],
  ['addEvent', { body: { type: 'PROGRESS', msg: 101 } }],
  ['addEvent', { body: { type: 'COMPLETED', msg: '', payload: { outputs: [] } } }],
  ['addEvent', { body: { type: 'FAILED', msg: '', payload: { error_message: 1 } } }],
  ['addEvent', { body: { type: 'RECLAIMED', msg: '' } }],
  ['addEvent', { body: { type: 'lower', msg: '' } }],
];

/** The method and the path template of an operation. */
function findOperation(document: ApiDocument, id: string): { method: string; template: string } {
  for (const [template, methods] of Object.entries(document.paths)) {
    for (const [method, { operationId }] of Object.entries(methods)) {
      if (operationId === id) return { method: method.toUpperCase(), template };
    }
  }
  throw new Error(`the document has no operation ${id}`);
}

/** Sends the request of an operation, as the document describes it. */
export function sendCall(
  { document, send }: { readonly document: ApiDocument; readonly send: Send },
  id: string,
  { path = {}, query = {}, body, headers = {} }: Call = {},
): Promise<TestAnswer> {
  const { method, template } = findOperation(document, id);
  const target = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ''));
  const parameters = Object.entries(query)
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`)
    .join('&');
  return send(method, parameters === '' ? target : `${target}?${parameters}`, {
    body,
    headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
  });
}
