import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { RUN_BYTES } from '../../../src/runs/storage/run-columns.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const MAX_BYTES = 8192;
/** Two entries of this size fit into a page, three do not. */
const TEXT = 'x'.repeat(3000);

describe('a page', () => {
  const service = useTestApp({ env: { SERVICE_MAX_ANSWER_BYTES: String(MAX_BYTES) } });
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat();
  });

  /** Reads a list to its end by the header `Link`. */
  async function walk(path: string): Promise<Record<string, unknown>[][]> {
    const pages: Record<string, unknown>[][] = [];
    for (let next: string | undefined = path; next !== undefined;) {
      const answer: TestAnswer = await service.send('GET', next);
      assert.equal(answer.status, 200, answer.text);
      assert.ok(answer.text.length < 2 * MAX_BYTES, `${next}: ${answer.text.length} bytes`);
      assert.ok(answer.body.length > 0 || pages.length === 0, `${next}: no page is empty but the only one`);
      pages.push(answer.body);
      const query = /^<(\?[^>]+)>; rel="next"$/.exec(answer.headers.get('link') ?? '')?.[1];
      assert.equal(query === undefined, answer.headers.get('link') === null);
      // The reference has no path: it holds behind a proxy that adds a prefix.
      next = query === undefined ? undefined : path.replace(/\?.*|$/, query);
    }
    return pages;
  }

  test('of runs ends early, and the walk in both directions finds all', async () => {
    const topic = 'runs';
    const older = await steps.create();
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      const { id } = await steps.create({ inputs: { text: TEXT }, event_delivery: { topic } });
      ids.unshift(id);
    }
    for (const [cursor, of] of [
      ['starting_after', (page: string[]) => page.at(-1)],
      ['ending_before', (page: string[]) => page[0]],
    ] as const) {
      const found: string[] = [];
      let at = cursor === 'starting_after' ? undefined : older.id;
      for (let hasMore = true; hasMore;) {
        const query = at === undefined ? '' : `&${cursor}=${at}`;
        const { body } = await service.send('GET', `/runs?limit=100&topic=${topic}${query}`);
        const page: string[] = body.data.map(({ id }: { id: string }) => id);
        assert.ok(page.length >= 1 && page.length <= 2, `${page.length} runs`);
        if (cursor === 'starting_after') found.push(...page);
        else found.unshift(...page);
        at = of(page);
        hasMore = body.has_more;
      }
      assert.deepEqual(found, ids, cursor);
    }
  });

  test('of runs shows a single run that is larger than a page', async () => {
    await steps.create({ image: 'large', inputs: { text: 'x'.repeat(2 * MAX_BYTES) } });
    await steps.create({ image: 'large' });
    const { body } = await service.send('GET', '/runs?image=large&limit=100');
    assert.deepEqual([body.data.length, body.has_more], [1, true]);
    const next = await service.send('GET', `/runs?image=large&starting_after=${body.data[0].id}`);
    assert.deepEqual([next.body.data.length, next.body.has_more], [1, false]);
  });

  test('of attempts ends early and names the next one', async () => {
    const { id } = await steps.create({ inputs: { text: TEXT } });
    for (let n = 0; n < 4; n += 1) await service.send('POST', `/runs/${id}/retry`);
    const pages = await walk(`/runs/${id}/attempts`);
    assert.deepEqual(
      pages.flat().map(({ attempt }) => attempt),
      [1, 2, 3, 4, 5],
    );
    assert.ok(pages.length >= 2);
    const part = await service.send('GET', `/runs/${id}/attempts?limit=2&after=1`);
    assert.deepEqual(
      part.body.map(({ attempt }: { attempt: number }) => attempt),
      [2, 3],
    );
  });

  test('of attempts counts the outputs of each', async () => {
    const { id } = await steps.create();
    for (let n = 0; n < 4; n += 1) {
      await steps.claimUntil(id);
      await steps.event(id, 'COMPLETED', { outputs: { text: TEXT } });
      await service.send('POST', `/runs/${id}/retry`);
    }
    const pages = await walk(`/runs/${id}/attempts`);
    assert.equal(pages.flat().length, 5);
    assert.ok(pages.length >= 2);
  });

  test('of definitions ends early and names the next one, in every list', async () => {
    const versions = ['1', '2', '3', '4', '5'];
    for (const version of versions) {
      for (const id of ['big', `big-${version}`]) {
        const spec = { type: 'string', default: TEXT };
        const body = { id, version, image: 'i', input_specs: { text: spec } };
        assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
      }
    }
    for (const [path, count] of [
      ['/definitions', 10],
      ['/definitions/big/versions', 5],
      ['/latest-definitions?search=big-', 5],
    ] as const) {
      const pages = await walk(path);
      const names = pages.flat().map(({ id, version }) => `${String(id)}/${String(version)}`);
      assert.equal(new Set(names).size, count, path);
      assert.equal(names.length, count, path);
      assert.ok(pages.length >= count / 2, path);
    }
  });

  test('of workers ends early and names the next one', async () => {
    const ids = ['w-1', 'w-2', 'w-3', 'w/4', 'w:5'];
    const tags = Array.from({ length: 25 }, (_, i) => String(i).padEnd(120, 'x'));
    const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
    for (const id of ids) {
      const body = { worker_id: id, resources, tags };
      assert.equal((await service.send('POST', '/workers/heartbeat', { body })).status, 200);
    }
    const pages = await walk('/workers');
    const found = pages.flat().map(({ id }) => id);
    assert.deepEqual(
      found.filter((id) => ids.includes(String(id))),
      ids,
    );
    assert.ok(pages.length >= 3);
    assert.equal((await service.send('GET', '/workers?limit=1&after=w-1')).body[0].id, 'w-2');
  });

  test('of the audit log ends early and names the next one', async () => {
    const { id } = await steps.create();
    for (let n = 0; n < 5; n += 1) {
      await service.send('PATCH', `/runs/${id}`, { body: { outputs: { n, text: TEXT } } });
    }
    const pages = await walk('/audit?limit=100');
    assert.equal(pages.flat().filter(({ run_id: of }) => of === id).length, 5);
    assert.ok(pages.length >= 4);
  });

  test('is bounded by bytes that stay right with every change of a run', async () => {
    const { id } = await steps.create({
      inputs: { a: 'é' },
      outputs: { url: 'u' },
      event_delivery: { topic: 't', attributes: { b: 'ü' } },
    });
    const agree = async (): Promise<void> => {
      const [run] = await rows<{ stored: number; measured: number }>(
        service.dataSource,
        `select ${RUN_BYTES} as stored,
                octet_length(inputs::text) + octet_length(outputs_template::text)
                  + octet_length(attributes::text) + coalesce(octet_length(outputs::text), 0)
                  + coalesce(octet_length(error_message), 0) as measured
           from runs r
          where id = $1`,
        [id],
      );
      assert.equal(run?.stored, run?.measured);
    };
    await agree();
    await steps.claimUntil(id);
    await steps.event(id, 'COMPLETED', { outputs: { text: 'some' } });
    await agree();
    await service.send('PATCH', `/runs/${id}`, { body: { outputs: { text: 'longer than before' } } });
    await agree();
    await service.send('POST', `/runs/${id}/retry`);
    await agree();
    await steps.claimUntil(id);
    await steps.event(id, 'FAILED', { error_message: 'it broke' });
    await agree();
  });
});
