import assert from 'node:assert/strict';
import { FILTER_TIME_FORM } from '@longshore/common/json/read-timestamp';
import { beforeAll, describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const NOBODY = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

describe('section 4: the list of runs', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  /** Ids of twelve runs, newest first. */
  let ids: string[];

  beforeAll(async () => {
    await service.send('POST', '/definitions', { body: { id: 'def', version: '1', image: 'of-def' } });
    const made: string[] = [];
    for (let i = 0; i < 10; i += 1) {
      const topic = i % 2 === 0 ? { event_delivery: { topic: 'even' } } : {};
      made.push((await steps.create({ image: `image-${i % 3}`, ...topic })).id);
    }
    for (let i = 0; i < 2; i += 1) {
      made.push((await service.send('POST', '/definitions/def/runs', { body: {} })).body.id);
    }
    ids = made.toReversed();
    await service.send('POST', `/runs/${ids[3]}/cancel`);
  });

  const get = (query = ''): Promise<TestAnswer> => service.send('GET', `/runs${query}`);
  const list = async (query: string): Promise<{ found: string[]; more: boolean }> => {
    const { status, body, text } = await get(query);
    assert.equal(status, 200, text);
    return { found: body.data.map(({ id }: { id: string }) => id), more: body.has_more };
  };

  describe('as specified', () => {
    test('is newest first', async () => {
      assert.deepEqual((await list('?limit=100')).found, ids);
    });

    test('holds ten runs unless asked otherwise, and one to a hundred when asked', async () => {
      assert.deepEqual(await list(''), { found: ids.slice(0, 10), more: true });
      assert.deepEqual(await list('?limit=1'), { found: ids.slice(0, 1), more: true });
      assert.deepEqual(await list('?limit=100'), { found: ids, more: false });
    });

    for (const limit of ['0', '101', '-1', 'ten', '1.5']) {
      test(`refuses limit=${limit} as 400`, async () => {
        assertInvalid(await get(`?limit=${limit}`), ['limit must be an integer from 1 to 100']);
      });
    }

    test('starting_after gives what is older than that run', async () => {
      assert.deepEqual(await list(`?limit=3&starting_after=${ids[4]}`), {
        found: ids.slice(5, 8),
        more: true,
      });
    });

    test('ending_before gives what is newer than that run, next to it, newest first', async () => {
      assert.deepEqual(await list(`?limit=3&ending_before=${ids[6]}`), {
        found: ids.slice(3, 6),
        more: true,
      });
    });

    test('has_more speaks of the direction of the page, and is false when nothing lies there', async () => {
      assert.deepEqual(await list(`?limit=3&starting_after=${ids[8]}`), { found: ids.slice(9), more: false });
      assert.deepEqual(await list(`?limit=3&ending_before=${ids[3]}`), {
        found: ids.slice(0, 3),
        more: false,
      });
      assert.deepEqual(await list(`?limit=3&ending_before=${ids[4]}`), {
        found: ids.slice(1, 4),
        more: true,
      });
    });

    test('has_more counts only what passes the filters', async () => {
      const of = await list('?op_definition=def&limit=2');
      assert.deepEqual(of, { found: ids.slice(0, 2), more: false });
      assert.deepEqual(await list('?op_definition=def&limit=1'), { found: ids.slice(0, 1), more: true });
    });

    test('an empty page has no more', async () => {
      assert.deepEqual(await list(`?starting_after=${ids.at(-1)}`), { found: [], more: false });
      assert.deepEqual(await list(`?ending_before=${ids[0]}`), { found: [], more: false });
      assert.deepEqual(await list('?image=nobody'), { found: [], more: false });
    });

    test('takes only one of the two cursors', async () => {
      const { status, body } = await get(`?starting_after=${ids[1]}&ending_before=${ids[2]}`);
      assert.equal(status, 400);
      assert.deepEqual(Object.keys(body), ['detail']);
    });

    for (const cursor of ['starting_after', 'ending_before']) {
      for (const id of [NOBODY, 'nope']) {
        test(`refuses ${cursor}=${id}, which is no run`, async () => {
          assertError(await get(`?${cursor}=${id}`), 400, 'The cursor is not the id of a run');
        });
      }
    }

    for (const name of ['state', 'status']) {
      test(`filters by ${name}`, async () => {
        assert.deepEqual((await list(`?${name}=CANCELLED`)).found, [ids[3]]);
        assert.equal((await list(`?${name}=PENDING&limit=100`)).found.length, 11);
      });

      test(`refuses an unknown ${name}`, async () => {
        assertError(await get(`?${name}=DONE`), 400, `Invalid state 'DONE'`, [
          'a state is one of PENDING, ASSIGNED, RUNNING, CANCELLED, COMPLETED, FAILED',
        ]);
      });
    }

    test('takes state and status together when they agree, and refuses them when they differ', async () => {
      assert.deepEqual((await list('?state=CANCELLED&status=cancelled')).found, [ids[3]]);
      assertError(
        await get('?state=CANCELLED&status=PENDING'),
        400,
        'state and status must match when both are provided',
      );
    });

    test('filters by definition, image and topic, and by several at once', async () => {
      assert.deepEqual((await list('?op_definition=def')).found, ids.slice(0, 2));
      assert.deepEqual((await list('?image=of-def')).found, ids.slice(0, 2));
      assert.equal((await list('?image=image-0')).found.length, 4);
      assert.equal((await list('?topic=even')).found.length, 5);
      assert.equal((await list('?topic=even&image=image-0')).found.length, 2);
      assert.deepEqual((await list('?topic=even&op_definition=def')).found, []);
    });

    test('filters by state and topic, to recover ends that a reader of the feed missed', async () => {
      const { id } = await steps.create({ event_delivery: { topic: 'recovered' } });
      await service.send('POST', `/runs/${id}/cancel`);
      await steps.create({ event_delivery: { topic: 'recovered' } });
      assert.deepEqual((await list('?topic=recovered&state=CANCELLED')).found, [id]);
      // The lists of the other cases are of twelve runs.
      ids = (await list('?limit=100')).found;
    });

    test('filters by the time of creation: at or after, after, at or before, before', async () => {
      const seconds = Math.floor(Date.parse((await steps.get(String(ids[0]))).createdAt) / 1000);
      const all = ids.length;
      for (const [query, count] of [
        [`created[gte]=${seconds - 3600}`, all],
        [`created[gt]=${seconds + 3600}`, 0],
        [`created[lte]=${seconds + 3600}`, all],
        [`created[lt]=${seconds - 3600}`, 0],
        [`created[gt]=${seconds - 3600}&created[lt]=${seconds + 3600}`, all],
        [`created[gte]=${seconds + 3600}&created[lte]=${seconds + 7200}`, 0],
      ] as const) {
        assert.equal((await list(`?limit=100&${query}`)).found.length, count, query);
      }
    });

    test('the bounds of the time include the moment itself or not, as their names say', async () => {
      await service.dataSource.query(
        `update runs set created_at = '2020-01-01T00:00:00Z', image = 'old' where id = $1`,
        [ids.at(-1)],
      );
      const seconds = Date.parse('2020-01-01T00:00:00Z') / 1000;
      for (const moment of [seconds, '2020-01-01T00:00:00Z', '2020-01-01T02:00:00+02:00', '2020-01-01']) {
        for (const [bound, count] of [
          ['gte', 1],
          ['lte', 1],
          ['gt', 0],
          ['lt', 0],
        ] as const) {
          assert.equal((await list(`?image=old&created[${bound}]=${moment}`)).found.length, count, bound);
        }
      }
    });

    for (const bound of ['gte', 'lte', 'gt', 'lt']) {
      for (const time of [
        'yesterday',
        '1.5',
        '2026-01-01T00:00:00',
        '2026-02-30',
        '1e9',
        '99999999999999999999',
      ]) {
        test(`refuses created[${bound}]=${time}`, async () => {
          assertError(await get(`?created[${bound}]=${time}`), 400, 'Invalid created timestamp', [
            `created[${bound}] must be ${FILTER_TIME_FORM}`,
          ]);
        });
      }
    }
  });

  describe('as settled', () => {
    test('runs of one moment are in order of their ids, descending', async () => {
      const made = await Promise.all(Array.from({ length: 30 }, () => steps.create({ image: 'same-time' })));
      await service.dataSource.query(`update runs set created_at = now() where image = 'same-time'`);
      const expected = made
        .map(({ id }) => String(id))
        .toSorted()
        .toReversed();
      const { found } = await list('?image=same-time&limit=20');
      const rest = await list(`?image=same-time&limit=20&starting_after=${found.at(-1)}`);
      assert.deepEqual([...found, ...rest.found], expected);
      const back = await list(`?image=same-time&limit=29&ending_before=${rest.found.at(-1)}`);
      assert.deepEqual(back.found, expected.slice(0, 29));
    });

    test('leaves the events out when it is asked to', async () => {
      const { id } = await steps.create({ image: 'with-events' });
      await steps.note(id);
      const { data } = (await get('?image=with-events')).body;
      const run = { ...(await steps.get(id)), reason: data[0].reason };
      assert.deepEqual(data, [run]);
      const bare = await get('?image=with-events&include_events=false');
      assert.deepEqual(bare.body.data, [{ ...run, events: [] }]);
    });

    test('refuses parameters that it does not know, has twice, or that are empty', async () => {
      for (const [query, error] of [
        ['?page=2', 'page is not a known query parameter'],
        ['?created[eq]=1', 'created[eq] is not a known query parameter'],
        ['?limit=1&limit=2', 'limit must not be given more than once'],
        ['?limit=', 'limit must not be empty'],
        ['?image=', 'image must not be empty'],
      ] as const) {
        assertInvalid(await get(query), [error]);
      }
    });
  });
});
