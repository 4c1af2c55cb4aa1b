import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { until } from '../../support/app/passing-time.js';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const ALL = { where: { all: true }, reason: 'The data centre moves.' };

for (const scheduler of ['direct', 'fit']) {
  describe(`pauses, with the strategy ${scheduler}`, () => {
    const service = useTestApp({ env: { SERVICE_SCHEDULER: scheduler } });
    const steps = new RunSteps(service.send);

    const put = (name: string, body: unknown) => service.send('PUT', `/pauses/${name}`, { body });
    const remove = (name: string) => service.send('DELETE', `/pauses/${name}`);
    const list = async () => bodyOf(await service.send('GET', '/pauses'), 'Pauses');
    const explain = async (id: string) =>
      bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');

    /** Ids of the runs that a worker with all tags gets in claims until one is empty. */
    async function claimAll(worker = 'w'): Promise<string[]> {
      const resources = { cpu_cores: 64, ram_mb: 64_000, gpus: [] };
      await steps.heartbeat(worker, { resources, tags: ['gpu', 'eu'] });
      const ids: string[] = [];
      for (;;) {
        const ops = await steps.claim(worker);
        if (ops.length === 0) return ids;
        ids.push(...ops.map(({ id }) => id));
      }
    }

    const run = async (definition: string, body = {}): Promise<string> =>
      (await service.send('POST', `/definitions/${definition}/runs`, { body })).body.id;

    /** Puts a pause, which must be accepted. */
    async function pause(where: unknown, name = 'p'): Promise<void> {
      const answer = await put(name, { where, reason: 'why' });
      assert.ok(answer.status === 201 || answer.status === 200, answer.text);
    }

    /** Ends all pauses, and returns what a worker gets until it has so many runs. */
    async function resume(count: number): Promise<string[]> {
      for (const { name } of await list()) assert.equal((await remove(name)).status, 204);
      const got: string[] = [];
      await until(
        async () => got.push(...(await claimAll())),
        (all) => all >= count,
      );
      return got;
    }

    afterEach(async () => {
      await resume(0);
      // What the job has still to release must not come to the next test.
      await until(
        () => service.dataSource.query<unknown[]>('select from queue where is_paused'),
        ({ length }) => length === 0,
      );
      await claimAll();
    });

    test('of all runs: none is assigned from the answer on, creates succeed, runs in execution go on', async () => {
      const running = await steps.running();
      const { id: before } = await steps.create();
      const created = await put('move', ALL);
      const { updated_by: by, created_at: at, updated_at: _, ...rest } = bodyOf(created, 'Pause', 201);
      assert.deepEqual(rest, { name: 'move', ...ALL, until: null });
      assert.equal(by.key_name, settingsName('admin', KEYS.admin));
      const { id: during } = await steps.create({ selector: ['gpu'], concurrency: { key: 'all', limit: 1 } });
      assert.deepEqual(await claimAll(), []);
      assert.equal((await steps.event(running.id, 'COMPLETED')).state, 'COMPLETED');
      const replaced = bodyOf(await put('move', { ...ALL, reason: 'Still.' }), 'Pause');
      assert.deepEqual([replaced.reason, replaced.created_at], ['Still.', at]);
      assert.deepEqual(await list(), [replaced]);
      assert.deepEqual(new Set(await resume(2)), new Set([before, during]));
      assert.deepEqual(await list(), []);
    });

    test('hold the runs for which each list has a value, before and after they enter the queue', async () => {
      for (const id of ['held', 'other']) {
        const definition = { id, version: '1', image: 'i', labels: { team: id } };
        assert.equal((await service.send('POST', '/definitions', { body: definition })).status, 201);
      }
      const { key_id: keyId } = (await steps.create()).created_by;
      for (const [where, match, pass] of [
        [{ definition: ['nothing', 'held'] }, () => run('held'), () => run('other')],
        [{ label: ['team=held'] }, () => run('held'), () => run('other')],
        [{ label: ['team'], definition: ['other'] }, () => run('other'), () => run('held')],
        [
          { selector: ['gpu', 'us'] },
          () => run('held', { selector: ['eu', 'gpu'] }),
          () => run('held', { selector: ['eu'] }),
        ],
        [
          { created_by: [keyId], label: ['a=1', 'a=2'] },
          () => run('held', { labels: { a: '2' } }),
          () => run('held', { labels: { a: '3' } }),
        ],
      ] as const) {
        await claimAll();
        const [heldBefore, freeBefore] = [await match(), await pass()];
        await pause(where);
        const [heldAfter, freeAfter] = [await match(), await pass()];
        assert.deepEqual(
          (await claimAll()).toSorted(),
          [freeBefore, freeAfter].toSorted(),
          JSON.stringify(where),
        );
        assert.deepEqual(
          (await resume(2)).toSorted(),
          [heldBefore, heldAfter].toSorted(),
          JSON.stringify(where),
        );
      }
    });

    test('tell in explanation, list, capacity and metrics that and why they hold a run', async () => {
      const soon = new Date(Date.now() + 3_600_000).toISOString();
      const { id } = await steps.create({ labels: { a: '1' } });
      await put('p', { where: { label: ['a'] }, reason: 'The disk is full.', until: soon });
      await pause({ label: ['a=1'] }, 'q');
      const { id: free } = await steps.create();
      await steps.heartbeat('w');
      const explained = await explain(id);
      assert.equal(explained.reason, 'paused');
      assert.deepEqual(explained.paused_by, [
        { name: 'p', reason: 'The disk is full.', until: soon },
        { name: 'q', reason: 'why', until: null },
      ]);
      assert.match(
        explained.summary,
        new RegExp(`; the pause 'p' and 1 more holds it until ${soon}: The disk is full\\.$`),
      );
      assert.ok(
        explained.workers.every(({ can_take_now: canTakeNow }: { can_take_now: boolean }) => !canTakeNow),
      );
      assert.deepEqual((await explain(free)).paused_by, []);
      const { data } = (await service.send('GET', '/runs?state=PENDING')).body;
      assert.deepEqual(
        new Map(data.map((one: { id: string; reason: string }) => [one.id, one.reason])),
        new Map([
          [free, 'queue'],
          [id, 'paused'],
        ]),
      );
      const demand = await until(
        async () => bodyOf(await service.send('GET', '/capacity'), 'CapacityReport').demand,
        ({ reasons }) => reasons.paused === 1,
      );
      assert.deepEqual([demand.ready.runs, demand.waiting.runs, demand.reasons.queue], [1, 1, 1]);
      assert.match((await service.send('GET', '/metrics')).text, /^longshore_pauses_active 2$/m);
      await pause({ all: true }, 'p');
      await until(
        async () => bodyOf(await service.send('GET', '/capacity'), 'CapacityReport').demand.reasons.paused,
        (paused) => paused === 2,
      );
      assert.equal((await explain(free)).reason, 'paused');
    });

    test('hold a run while one of them does, and through a change of its priority, labels, attempt or cancellation', async () => {
      const { id: retried } = await steps.running({ labels: { b: '1' } });
      const { id } = await steps.create({ labels: { a: '1', b: '1' } });
      const { id: cancelled } = await steps.create({ labels: { a: '1' } });
      await pause({ label: ['a'] });
      await pause({ label: ['b'] }, 'q');
      await steps.event(retried, 'FAILED');
      assert.equal((await service.send('POST', `/runs/${retried}/retry`)).status, 200);
      assert.equal((await service.send('PATCH', `/runs/${id}`, { body: { priority: 7 } })).status, 200);
      assert.deepEqual(await claimAll(), []);
      assert.equal((await remove('p')).status, 204);
      await until(
        () => explain(id),
        ({ paused_by: by }) => by.length === 1,
      );
      assert.equal((await service.send('POST', `/runs/${cancelled}/cancel`)).status, 200);
      assert.deepEqual(await claimAll(), []);
      const labels = { labels: { b: null } };
      assert.equal((await service.send('PATCH', `/runs/${id}/labels`, { body: labels })).status, 200);
      assert.deepEqual(await until(claimAll, (ids) => ids.length > 0), [id]);
      const { id: late } = await steps.create();
      assert.equal(
        (await service.send('PATCH', `/runs/${late}/labels`, { body: { labels: { b: '2' } } })).status,
        200,
      );
      assert.deepEqual(await claimAll(), []);
      await pause({ label: ['b=1'] }, 'q');
      assert.deepEqual(await until(claimAll, (ids) => ids.length > 0), [late]);
      assert.deepEqual(await resume(1), [retried]);
    });

    test('leave the place of a concurrency key to a run that none holds', async () => {
      const concurrency = { key: 'place', limit: 1 };
      const { id: held } = await steps.create({ concurrency, priority: 9, labels: { a: '1' } });
      const { id: free } = await steps.create({ concurrency });
      await pause({ label: ['a'] });
      assert.deepEqual(await claimAll(), [free]);
      const { id: next } = await steps.create({ concurrency });
      assert.equal((await remove('p')).status, 204);
      await until(
        () => service.dataSource.query<unknown[]>('select from queue where is_paused'),
        ({ length }) => length === 0,
      );
      for (const [ended, claimed] of [
        [free, held],
        [held, next],
      ]) {
        await steps.event(ended, 'COMPLETED');
        // A claim that meets the job that releases the rows gets nothing.
        assert.deepEqual(await until(claimAll, ({ length }) => length > 0), [claimed]);
      }
    });

    test('end by themselves at `until`, and claims that wait get their runs', async () => {
      await steps.heartbeat('w');
      for (const where of [{ all: true }, { label: ['a'] }]) {
        await claimAll();
        const { id } = await steps.create({ labels: { a: '1' } });
        assert.equal((await put('p', { where, reason: 'r', until: '1h' })).status, 201);
        const waiting = service.send('POST', '/workers/w/claim?wait=30');
        await service.dataSource.transaction(async (manager) => {
          await manager.query(`update pauses set until_at = clock_timestamp() + interval '50 milliseconds'`);
          await sendNotice(manager, { pauses: true });
        });
        const { ops } = bodyOf(await waiting, 'ClaimedOps');
        assert.deepEqual(
          ops.map((op: { id: string }) => op.id),
          [id],
        );
        assert.deepEqual(await list(), []);
        const rows = () => service.dataSource.query<unknown[]>('select from pauses');
        await until(rows, ({ length }) => length === 0);
      }
    });

    test('are recorded in the audit log', async () => {
      await put('audited', ALL);
      await put('audited', { where: { label: ['a'] }, reason: 'b', until: '2030-01-01T00:00:00Z' });
      await remove('audited');
      const { body } = await service.send('GET', '/audit?limit=3');
      const [one, two] = [
        { ...ALL, until: null },
        { where: { label: ['a'] }, reason: 'b', until: '2030-01-01T00:00:00.000Z' },
      ];
      assert.deepEqual(
        body.map(({ action, subject, before, after }: Readonly<Record<string, unknown>>) => [
          action,
          subject,
          before,
          after,
        ]),
        [
          ['pause.delete', 'audited', two, {}],
          ['pause.replace', 'audited', one, two],
          ['pause.create', 'audited', {}, one],
        ],
      );
    });
  });
}

describe('a refused pause', () => {
  const service = useTestApp();
  const put = (body: unknown, name = 'p') => service.send('PUT', `/pauses/${name}`, { body });

  test('changes nothing, and the answer lists what is wrong', async () => {
    const FAILED = 'Request validation failed';
    for (const [body, ...errors] of [
      [{ where: {}, reason: 'r' }, 'where must have a condition, or all: true'],
      [
        { where: { all: true, label: ['a'] }, reason: 'r' },
        'where.all must not be given together with other conditions',
      ],
      [{ where: { all: false }, reason: 'r' }, 'where.all must be true'],
      [{ where: { all: null }, reason: 'r' }, 'where must have a condition, or all: true'],
      [{ where: { image: ['i'] }, reason: 'r' }, 'where.image is not a known field'],
      [
        { where: { label: [] }, reason: 'r' },
        'where.label must be a list of 1 to 100 items, each a label as key or key=value of at most 320 characters',
      ],
      [{ where: { all: true } }, 'reason is required'],
      [
        { where: { all: true }, reason: '' },
        'reason must be a string without control characters of 1 to 500 characters',
      ],
      [
        { where: { all: true }, reason: 'r', until: '2020-01-01T00:00:00Z' },
        'until must be UNIX seconds, an ISO 8601 date and time with a zone (2030-01-31T09:00:00Z), or a span such as 90s, 15m, 2h or 3d, in the future',
      ],
      [{ where: { all: true }, reason: 'r', note: 'n' }, 'note is not a known field'],
    ] as const) {
      assertError(await put(body), 400, FAILED, errors);
    }
    assertError(await put({ where: { all: true }, reason: 'r' }, '.p'), 400, FAILED, [
      'name must be a name of letters, digits, ".", "_" and "-" that starts with a letter or digit of 1 to 128 characters',
    ]);
    assertError(await service.send('DELETE', '/pauses/p'), 404, "Pause 'p' not found");
    assert.deepEqual((await service.send('GET', '/pauses')).body, []);
  });

  test('is the one beyond a hundred, and one of them can still be replaced', async () => {
    const body = { where: { label: ['a'] }, reason: 'r' };
    await Promise.all(
      Array.from({ length: 100 }, async (_, n) => assert.equal((await put(body, `p${n}`)).status, 201)),
    );
    assertError(await put(body, 'more'), 409, 'There are 100 pauses, which is the most');
    assert.equal((await put(body, 'p7')).status, 200);
    assert.equal((await service.send('DELETE', '/pauses/p7')).status, 204);
    assert.equal((await put(body, 'more')).status, 201);
  });
});
