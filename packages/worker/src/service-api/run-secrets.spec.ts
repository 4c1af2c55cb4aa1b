import assert from 'node:assert/strict';
import { test } from 'vitest';
import { PLAIN } from '../testing/fake-service.js';
import { HttpServiceApi } from './http-service-api.js';

const CALL = {
  waitSeconds: 0,
  timeoutMs: 15_000,
  signal: new AbortController().signal,
  onAssigned: () => undefined,
};
const OP = { id: 'r', image: 'i', inputs: {}, constraints: {}, attempt: 1 };
const HOLDER = { workerId: 'rack/7:a', attempt: 3 };

test('reads what a claimed run changes about its container', async () => {
  const given = {
    env: { A: '1' },
    command: ['c'],
    args: [],
    secrets: { B: 'b' },
    image_pull_secret: 'login',
  };
  const claimed = await answering({ ops: [{ ...OP, ...given }] }).claim('w', 'k', CALL);
  assert.deepEqual(claimed.kind === 'ok' && claimed.value[0]?.container, {
    ...PLAIN,
    env: { A: '1' },
    command: ['c'],
    args: [],
    secrets: { B: 'b' },
    image_pull_secret: 'login',
  });
});

for (const odd of [
  { env: { A: 1 } },
  { command: 'c' },
  { args: [1] },
  { secrets: [] },
  { image_pull_secret: 1 },
]) {
  test(`takes no claimed run whose options it does not understand: ${JSON.stringify(odd)}`, async () => {
    const answer = await answering({ ops: [{ ...OP, ...odd }] }).claim('w', 'k', CALL);
    assert.equal(answer.kind, 'unreachable');
  });
}

test('reads secrets with both fencing headers', async () => {
  const registry = { server: 's', username: 'u', password: 'p' };
  const requests: Request[] = [];
  const answer = await answering({ env: { A: 'value' }, registry }, requests).getSecrets('r', HOLDER);
  assert.deepEqual(answer, { kind: 'ok', value: { env: { A: 'value' }, files: {}, registry } });
  const [request] = requests;
  assert.equal(request?.url, 'http://service.test/runs/r/secrets');
  assert.equal(request.headers.get('X-Worker-Id'), 'rack/7:a');
  assert.equal(request.headers.get('X-Run-Attempt'), '3');
  const without = await answering({ env: { A: 'value' }, files: {}, registry: null }).getSecrets('r', HOLDER);
  assert.deepEqual(without, { kind: 'ok', value: { env: { A: 'value' }, files: {}, registry: null } });
});

for (const odd of [{ env: { A: ['value'] } }, { env: {}, registry: { server: 'value' } }, ['value']]) {
  test(`quotes nothing of secrets that it does not understand: ${JSON.stringify(odd)}`, async () => {
    const answer = await answering(odd).getSecrets('r', HOLDER);
    assert.ok(answer.kind === 'unreachable' && !answer.reason.includes('value'), JSON.stringify(answer));
  });
}

function answering(body: object, requests: Request[] = []): HttpServiceApi {
  return new HttpServiceApi({
    baseUrl: 'http://service.test',
    apiKey: 'key',
    fetch: async (request) => {
      requests.push(request);
      return Response.json(body);
    },
  });
}
