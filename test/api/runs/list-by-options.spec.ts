import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const TAGS_RULE = 'selector must be 1 to 20 tags, separated by commas';

describe('GET /runs by selector and concurrency_key', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const ids = async (query: string): Promise<string[]> => {
    const { status, body, text } = await service.send('GET', `/runs?${query}`);
    assert.equal(status, 200, text);
    return body.data.map((run: { id: string }) => run.id);
  };

  test('a run is in the list of its present state, however it got there', async () => {
    const { id } = await steps.create({
      selector: ['moving', 'moving'],
      concurrency: { key: 'moving', limit: 1 },
    });
    const other = await steps.create({ selector: ['moving'] });
    const states = async (): Promise<string[]> => {
      const found: string[] = [];
      for (const state of ['PENDING', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED']) {
        const [byTag, byKey] = [
          await ids(`selector=moving&state=${state}`),
          await ids(`concurrency_key=moving&state=${state}`),
        ];
        assert.equal(byTag.includes(id), byKey.includes(id), state);
        if (byKey.includes(id)) found.push(state);
      }
      return found;
    };
    assert.deepEqual(await states(), ['PENDING']);
    for (const state of ['RUNNING', 'COMPLETED', 'PENDING', 'FAILED']) {
      await service.send('PATCH', `/runs/${id}`, { body: { state } });
      assert.deepEqual(await states(), [state]);
    }
    await service.send('POST', `/runs/${id}/retry`);
    await service.send('POST', `/runs/${id}/cancel`);
    assert.deepEqual(await states(), ['CANCELLED']);
    assert.deepEqual(await ids('selector=moving'), [other.id, id]);
  });

  test('a selector of several tags lists the runs that have all of them', async () => {
    const both = await steps.create({ selector: ['x', 'y', 'z'] });
    await steps.create({ selector: ['x'] });
    const more = await steps.create({ selector: ['y', 'x'] });
    for (const selector of ['x,y', 'y,x', 'y,x,y']) {
      assert.deepEqual(await ids(`selector=${selector}`), [more.id, both.id]);
    }
    assert.deepEqual(await ids('selector=x,y,z,w'), []);
  });

  test('a tag or a key of any characters is found', async () => {
    const { id } = await steps.create({ selector: ['日本 +&='], concurrency: { key: 'a,b +&=', limit: 1 } });
    assert.deepEqual(await ids(`selector=${encodeURIComponent('日本 +&=')}`), [id]);
    assert.deepEqual(await ids(`concurrency_key=${encodeURIComponent('a,b +&=')}`), [id]);
  });

  test('what is no list of tags is refused', async () => {
    const many = Array.from({ length: 21 }, (_, i) => `t${i}`).join(',');
    for (const selector of [',', 'a,', ',a', 'a,,b', many]) {
      assertError(await service.send('GET', `/runs?selector=${selector}`), 400, TAGS_RULE);
    }
    for (const name of ['selector', 'concurrency_key']) {
      assert.equal((await service.send('GET', `/runs?${name}=`)).status, 400);
    }
  });
});

describe('GET /runs by the beginning of an id', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const list = (query: string): Promise<TestAnswer> => service.send('GET', `/runs?${query}`);

  test('finds the newest runs that have it, up to the whole id', async () => {
    const { id: first } = await steps.create();
    const { id: second } = await steps.create();
    const idsOf = async (query: string): Promise<string[]> =>
      (await list(query)).body.data.map((run: { id: string }) => run.id);
    for (let length = 4; length <= 36; length += 1) {
      const prefix = second.slice(0, length);
      const expected = first.startsWith(prefix) ? [second, first] : [second];
      assert.deepEqual(await idsOf(`id_prefix=${prefix}`), expected, prefix);
    }
    const { body } = await list(`id_prefix=${first.slice(0, 4)}&limit=1&include_events=false`);
    assert.deepEqual([body.data.length, body.data[0].id, body.has_more], [1, second, true]);
    assert.deepEqual(await idsOf('id_prefix=ffff'), []);
  });

  test('refuses what no id begins with, and other filters and cursors beside it', async () => {
    for (const prefix of ['019', '019G', '0190-0', '01900000-00000', '%25%25%25%25']) {
      assert.equal((await list(`id_prefix=${prefix}`)).status, 400, prefix);
    }
    const { id } = await steps.create();
    for (const [name, value] of [
      ['state', 'PENDING'],
      ['label', 'a=b'],
      ['created[gte]', '0'],
      ['starting_after', id],
    ] as const) {
      const detail = `id_prefix and ${name} must not be given together`;
      assertError(await list(`id_prefix=0190&${name}=${value}`), 400, detail);
    }
  });
});
