import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, settingsName, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const SECOND_ADMIN = 'second-admin-key-of-the-tests';
const NAMED_ADMIN = 'named-admin-key-of-the-tests';

describe('the audit log', () => {
  const keys = Object.entries(KEYS).map(([scope, key]) => `${scope}:${key}`);
  const service = useTestApp({
    env: {
      SERVICE_API_KEYS: [
        ...keys,
        `admin:${SECOND_ADMIN}`,
        `client:${SECOND_ADMIN}`,
        `admin:night-shift=${NAMED_ADMIN}`,
      ].join(','),
    },
  });
  const steps = new RunSteps(service.send);

  const patch = async (id: string, body: object, key: string = KEYS.admin): Promise<Json> => {
    const answer = await service.send('PATCH', `/runs/${id}`, { body, key });
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  };
  const read = (query = '', key: string = KEYS.admin): Promise<TestAnswer> =>
    service.send('GET', `/audit${query}`, { key });
  const list = async (query = ''): Promise<Json[]> => {
    const answer = await read(query);
    assert.equal(answer.status, 200, answer.text);
    return answer.body;
  };

  test('says of every PATCH when it was, by which key, of which run, what was before and what is after', async () => {
    const { id } = await steps.create({ priority: 2, outputs: { t: 1 } });
    const patches: [object, string][] = [
      [{ state: 'RUNNING' }, KEYS.admin],
      [{ priority: -1 }, SECOND_ADMIN],
      [{ outputs: { a: { b: [1] } } }, KEYS.admin],
      [{ outputs: {}, state: 'FAILED', priority: 3 }, KEYS.admin],
      [{}, KEYS.admin],
    ];
    const times: string[] = [];
    for (const [body, key] of patches) times.push((await patch(id, body, key)).updatedAt);
    const entries = (await list('?limit=5')).toReversed();
    assert.deepEqual(
      entries.map(({ t, key_name, run_id, before: was, after: is }) => ({ t, key_name, run_id, was, is })),
      [
        [
          { state: 'PENDING', priority: 2 },
          { state: 'RUNNING', priority: 2 },
        ],
        [
          { state: 'RUNNING', priority: 2 },
          { state: 'RUNNING', priority: -1 },
        ],
        [
          { state: 'RUNNING', priority: -1, outputs: { t: 1 } },
          { state: 'RUNNING', priority: -1, outputs: { a: { b: [1] } } },
        ],
        [
          { state: 'RUNNING', priority: -1, outputs: { a: { b: [1] } } },
          { state: 'FAILED', priority: 3, outputs: {} },
        ],
        [
          { state: 'FAILED', priority: 3 },
          { state: 'FAILED', priority: 3 },
        ],
      ].map(([was, is], i) => ({
        t: times[i],
        key_name: i === 1 ? settingsName('admin+client', SECOND_ADMIN) : settingsName('admin', KEYS.admin),
        run_id: id,
        was,
        is,
      })),
    );
  });

  test('names a key of the settings that has a name by it', async () => {
    const { id } = await steps.create();
    await patch(id, { priority: 1 }, NAMED_ADMIN);
    assert.equal((await list('?limit=1'))[0].key_name, 'settings:night-shift');
  });

  test('holds the true sequence when mutations race', async () => {
    const { id } = await steps.create({ outputs: { n: -1 } });
    await Promise.all(Array.from({ length: 20 }, (_, n) => patch(id, { priority: n, outputs: { n } })));
    const entries = (await list('?limit=20')).toReversed();
    assert.deepEqual(entries[0].before, { state: 'PENDING', priority: 0, outputs: { n: -1 } });
    entries.slice(1).forEach((entry, i) => assert.deepEqual(entry.before, entries[i].after));
    const run = await steps.get(id);
    assert.deepEqual(entries.at(-1).after, {
      state: 'PENDING',
      priority: run.priority,
      outputs: run.outputs,
    });
  });

  test('names the outputs that a new attempt had begun with', async () => {
    const { id } = await steps.create({ outputs: { template: 1 } });
    await patch(id, { outputs: { own: 1 } });
    await service.send('POST', `/runs/${id}/retry`);
    await patch(id, { outputs: { more: 1 } });
    const [entry] = await list('?limit=1');
    assert.deepEqual([entry.before.outputs, entry.after.outputs], [{ template: 1 }, { more: 1 }]);
  });

  test('is read newest first, in pages that follow each other without a gap while more is written', async () => {
    const { id } = await steps.create();
    for (let n = 0; n < 25; n += 1) await patch(id, { priority: n });
    const all = await list('?limit=500');
    const seen: Json[] = [];
    for (;;) {
      const last = seen.at(-1);
      const page = await list(last === undefined ? '?limit=7' : `?limit=7&after=${last.id}`);
      if (page.length === 0) break;
      seen.push(...page);
      if (seen.length === 7) await patch(id, { priority: 99 });
    }
    assert.deepEqual(seen, all);
    const ids = seen.map((entry) => Number(entry.id));
    assert.deepEqual(
      ids.toSorted((a, b) => b - a),
      ids,
    );
    assert.equal(new Set(ids).size, ids.length);
  });

  test('shows 100 entries unless asked otherwise, and 500 at most', async () => {
    const { id } = await steps.create();
    await Promise.all(Array.from({ length: 510 }, () => patch(id, {})));
    assert.equal((await list()).length, 100);
    assert.equal((await list('?limit=1')).length, 1);
    assert.equal((await list('?limit=500')).length, 500);
    assert.deepEqual(await list('?after=1'), []);
    const [newest] = await list('?limit=1');
    assert.equal((await list(`?limit=1&after=${newest.id + 1000}`))[0].id, newest.id);
  });

  test('refuses limits and cursors that cannot be', async () => {
    for (const limit of ['0', '501', 'x'])
      assertInvalid(await read(`?limit=${limit}`), ['limit must be an integer from 1 to 500']);
    for (const after of ['0', '-1', '1.5', 2 ** 53])
      assertInvalid(await read(`?after=${after}`), ['after must be an integer of at least 1']);
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
