import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { HttpServiceApi } from './http-service-api.js';

const RUN = {
  id: 'r',
  state: 'RUNNING',
  current_attempt: 2,
  image: 'i',
  inputs: {},
  outputs: {},
  execution_summary: {},
};

/** The interface to a service that gives these answers, and the entity tags that it was asked with. */
function serviceWith(...answers: readonly Response[]): {
  readonly api: HttpServiceApi;
  readonly tags: (string | null)[];
} {
  const tags: (string | null)[] = [];
  const waiting = [...answers];
  const fetch = async (request: Request): Promise<Response> => {
    tags.push(request.headers.get('If-None-Match'));
    return waiting.shift() ?? new Response(null, { status: 500 });
  };
  return {
    api: new HttpServiceApi({ baseUrl: 'http://service', apiKey: 'k', fetch }),
    tags,
  };
}

function tagged(etag: string, run: object): Response {
  const body = JSON.stringify(run);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': String(body.length), ETag: etag };
  return new Response(body, { headers });
}

function notModified(): Response {
  return new Response(null, { status: 304 });
}

describe('a poll of a run', () => {
  test('that has not changed answers what was read before', async () => {
    const cancelled = { ...RUN, state: 'CANCELLED' };
    const { api, tags } = serviceWith(
      tagged('"1"', RUN),
      notModified(),
      tagged('"2"', cancelled),
      notModified(),
    );
    const first = await api.getRun('r');
    assert.deepEqual(await api.getRun('r'), first);
    const changed = await api.getRun('r');
    assert.equal(changed.kind === 'ok' && changed.value.state, 'CANCELLED');
    assert.deepEqual(await api.getRun('r'), changed);
    assert.deepEqual(tags, [null, '"1"', '"1"', '"2"']);
  });

  test('of an older service, without entity tags, is unconditional', async () => {
    const { api, tags } = serviceWith(Response.json(RUN), Response.json(RUN));
    await api.getRun('r');
    assert.equal((await api.getRun('r')).kind, 'ok');
    assert.deepEqual(tags, [null, null]);
  });

  test('takes no answer without a body for a run that was not read', async () => {
    const { api } = serviceWith(notModified());
    assert.equal((await api.getRun('r')).kind, 'unreachable');
  });

  test('does not keep a large run', async () => {
    const large = { ...RUN, inputs: { filler: 'x'.repeat(20_000) } };
    const { api, tags } = serviceWith(tagged('"1"', large), tagged('"1"', large));
    await api.getRun('r');
    await api.getRun('r');
    assert.deepEqual(tags, [null, null]);
  });

  test('does not keep a run of unknown size', async () => {
    const answers = [tagged('"1"', RUN), tagged('"1"', RUN)];
    for (const { headers } of answers) headers.delete('Content-Length');
    const { api, tags } = serviceWith(...answers);
    assert.equal((await api.getRun('r')).kind, 'ok');
    await api.getRun('r');
    assert.deepEqual(tags, [null, null]);
  });

  test('forgets the least recently read of more than a thousand runs', async () => {
    const ids = Array.from({ length: 1001 }, (_, n) => `r${n}`);
    const answers = [...ids, 'r0', 'r1000'].map((id) => tagged(`"${id}"`, { ...RUN, id }));
    const { api, tags } = serviceWith(...answers);
    for (const id of [...ids, 'r0', 'r1000']) await api.getRun(id);
    assert.deepEqual(tags.slice(1001), [null, '"r1000"']);
  });
});
