import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { ScriptImages, endWorker } from '../../support/workers/worker-process.js';
import { until } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import {
  buildVersion,
  missingCommit,
  previousCommit,
  type BuiltVersion,
} from '../../support/upgrade/previous-version.js';
import { RollingDeployment, UPGRADE_KEY } from '../../support/upgrade/rolling-deployment.js';
import { runUpgrade } from '../../support/upgrade/upgrade-run.js';
import { atDepth } from '../../support/depth.js';
import { skipFor } from '../../support/skip.js';

/** `npm run upgrade:check` sets them. */
const revision = process.env['LONGSHORE_UPGRADE_FROM'];
const minutes = Number(process.env['LONGSHORE_UPGRADE_MINUTES'] ?? atDepth({ fast: 0, all: 0, soak: 10 }));

const seconds = minutes > 0 ? minutes * 60 : 18;
const USUAL_STATUSES: ReadonlySet<number> = new Set([0, 200, 201, 400, 409, 503]);

const skip = await missingCommit(revision);

/**
 * Before the first release, this tree is both versions. What is promised then: processes take each other's place under load,
 * and this version starts, serves and stops over a schema to which a later one has added columns and indexes.
 */
describe(
  'the version before and this one over one database',
  { ...skipFor(skip), timeout: (seconds + 400) * 1000 },
  () => {
    let old: BuiltVersion;
    let deployment: RollingDeployment;

    beforeAll(async () => {
      old = await buildVersion(await previousCommit(revision));
      deployment = await RollingDeployment.start(old);
    });
    afterAll(() => deployment.close());

    it('lose nothing, double nothing and count right while one takes the place of the other under load, and back', async (t) => {
      const { broken, counts, figures } = await runUpgrade(deployment, { seconds, runs: seconds * 25 });
      await t.annotate(JSON.stringify(figures, null, 1));
      assert.deepEqual(broken, [], broken.join('\n'));
      for (const overview of counts.overviews) assert.deepEqual(overview, counts.found);
      assert.ok(figures.replacements >= 4 && figures.runs >= seconds * 20, JSON.stringify(figures));
      assert.equal(figures.refusedWrongly, 0, JSON.stringify(figures));
      const odd = Object.keys(figures.statuses).filter((status) => !USUAL_STATUSES.has(Number(status)));
      assert.deepEqual(odd, [], JSON.stringify(figures.statuses));
      assert.deepEqual(new Set(deployment.exitCodes), new Set([0]));
      assert.equal(deployment.errors, '');
    });

    describe('side by side', () => {
      let places: Record<'old' | 'new', { readonly send: Send; readonly url: string }>;

      beforeAll(async () => {
        await deployment.roll(0, 'old');
        const at = (which: 0 | 1) => ({
          send: senderTo(deployment.urlOf(which), UPGRADE_KEY),
          url: deployment.urlOf(which),
        });
        places = { old: at(0), new: at(1) };
      });

      for (const [one, other] of [
        ['old', 'new'],
        ['new', 'old'],
      ] as const) {
        it(`heed each other's idempotency keys: sent to the ${one} one, sent again to the ${other} one`, async () => {
          const worker = await register(places[one].send);
          const twice = async (path: string, body?: object) => {
            const headers = { 'Idempotency-Key': randomUUID() };
            const options = body === undefined ? { headers } : { headers, body };
            const first = await places[one].send('POST', path, options);
            const second = await places[other].send('POST', path, options);
            assert.ok(first.status < 300, first.text);
            assert.equal(second.status, first.status, second.text);
            return { first, second };
          };
          const created = await twice('/runs', { image: 'keyed' });
          const { id } = created.first.body;
          assert.equal(created.second.body.id, id);
          assert.equal(created.second.headers.get('idempotency-replayed'), 'true');
          const claimed = await twice(`/workers/${worker}/claim`);
          assert.equal(claimed.first.body.ops[0].id, id);
          assert.deepEqual(claimed.second.body, claimed.first.body);
          const ended = await twice(`/runs/${id}/events`, { type: 'COMPLETED', msg: 'done' });
          assert.equal(ended.second.headers.get('idempotency-replayed'), 'true');
          const { body } = await places[other].send('GET', `/runs/${id}/events`);
          assert.deepEqual(
            body.events.map(({ type }: { type: string }) => type),
            ['COMPLETED'],
          );
        });

        it(`wake a claim that waits at the ${one} one, and a reader of a feed, by a run created at the ${other} one`, async () => {
          const worker = await register(places[one].send);
          const topic = `woken-${one}`;
          const claim = places[one].send('POST', `/workers/${worker}/claim?wait=30`);
          const page = places[one].send('GET', `/feed?topic=${topic}&wait=20`);
          const body = { image: 'woken', event_delivery: { topic } };
          await until(async () => (await feedReaders(places[one].send)) > 0, 'the reader waits');
          const { body: run } = await places[other].send('POST', '/runs', { body });
          const { body: claimed } = await claim;
          assert.equal(claimed.ops[0]?.id, run.id);
          await places[other].send('POST', `/runs/${run.id}/events`, { body: { type: 'NOTE', msg: 'seen' } });
          const { body: feed } = await page;
          // A claim that waits to its end comes after this page, which is then empty.
          assert.equal(feed.events[0]?.run_id, run.id);
          // A cursor of one works at the other.
          const rest = await places[other].send('GET', `/feed?topic=${topic}&after=${feed.next_cursor}`);
          assert.equal(rest.status, 200, rest.text);
          await places[other].send('POST', `/runs/${run.id}/cancel`);
        });
      }

      it('have their workers work for each other', async () => {
        const images = await ScriptImages.make();
        await images.add('greet', `echo '{"greeting":"hello"}' >"$SERVICE_OUTPUT_PATH"`);
        for (const [place, main] of [
          ['new', old.workerMain],
          ['old', undefined],
        ] as const) {
          const { send, url } = places[place];
          const worker = await images.startWorker({
            url,
            key: UPGRADE_KEY,
            id: `worker-of-${place}`,
            ...(main === undefined ? {} : { main }),
          });
          const { body: created } = await send('POST', '/runs', { body: { image: 'greet' } });
          await until(
            async () => (await send('GET', `/runs/${created.id}`)).body.state === 'COMPLETED',
            `a run at the ${place} service`,
          );
          const { body: run } = await send('GET', `/runs/${created.id}`);
          assert.equal(run.execution_summary.worker_id, `worker-of-${place}`);
          assert.deepEqual(run.outputs, { greeting: 'hello' });
          await endWorker(worker);
        }
      });

      it('assign a run at its start_at, not before, whichever of them applies its timer', async () => {
        const worker = await register(places.old.send);
        const claim = places.old.send('POST', `/workers/${worker}/claim?wait=30`);
        const startAt = new Date(Date.now() + 2_000).toISOString();
        const { body: created } = await places.new.send('POST', '/runs', {
          body: { image: 'delayed', start_at: startAt },
        });
        assert.equal((await claim).body.ops[0].id, created.id);
        const { body: run } = await places.new.send('GET', `/runs/${created.id}`);
        const lateMs = Date.parse(run.execution_summary.assigned_at) - Date.parse(startAt);
        assert.ok(lateMs >= 0 && lateMs < 1_000, `${lateMs} ms late`);
        await places.new.send('POST', `/runs/${created.id}/cancel`);
      });

      it('keep one pool: what is new there never empties it', async () => {
        const worker = await register(places.old.send);
        await deployment.roll(1, 'new');
        const { body: known } = await places.new.send('GET', '/workers');
        assert.ok(known.some(({ id }: { id: string }) => id === worker));
      });
    });
  },
);

async function register(send: Send): Promise<string> {
  const worker = `worker-${randomUUID()}`;
  const resources = { cpu_cores: 1, ram_mb: 1024, gpus: [] };
  const answer = await send('POST', '/workers/heartbeat', {
    body: { worker_id: worker, resources, tags: [] },
  });
  assert.equal(answer.status, 200, answer.text);
  return worker;
}

/** Readers that a place holds; the claim that was sent before the reader has arrived by then as well. */
async function feedReaders(send: Send): Promise<number> {
  const { text } = await send('GET', '/metrics');
  return Number(/^longshore_feed_readers(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1] ?? 0);
}
