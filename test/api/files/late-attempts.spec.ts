import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startTestApp, type Send, type TestApp, type TestAppOptions } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { atDepth, testSeed } from '../../support/depth.js';
import { HeldRun } from '../../support/files/held-run.js';
import { useS3Bucket } from '../../support/files/s3-bucket.js';
import { SeededRandom } from '../../support/history/seeded-random.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const ORDERS = atDepth({ fast: 8, all: 100, soak: 2000 });
const RACES = atDepth({ fast: 4, all: 30, soak: 300 });
/** Only one of these is what a run has left. */
const OUT = { artifacts: { out: { model: { path: '/m' } } } };
const MODEL = { artifacts: [{ name: 'model' }] };

/** What happens to a run, in an order of its own for each who acts. */
const ACTORS = [
  ['old asks', 'old uploads', 'old reports'],
  ['reclaim', 'new asks', 'new uploads', 'new reports'],
  ['old uploads again'],
  ['new uploads again'],
  ['admin sets outputs'],
  ['admin ends it'],
] as const;
type Step = (typeof ACTORS)[number][number];

/** An order in which the actors come. */
function drawOrder(random: SeededRandom): Step[] {
  const left = ACTORS.map((steps): Step[] => [...steps]);
  const order: Step[] = [];
  while (left.some((steps) => steps.length > 0)) {
    const step = left[random.int(0, left.length - 1)]?.shift();
    if (step !== undefined) order.push(step);
  }
  return order;
}

/** One of the two attempts. */
class Attempt {
  url: string | undefined;
  /** What the store has taken of it. */
  stored: string | undefined;
  sent = 0;

  constructor(
    readonly name: string,
    readonly held: HeldRun,
  ) {}

  async ask(): Promise<void> {
    const { status, body, text } = await this.held.urls(['model']);
    assert.ok([200, 409].includes(status), text);
    if (status === 200) this.url = body.urls.model.url;
  }

  async upload(): Promise<void> {
    if (this.url === undefined) return;
    const content = `${this.name} ${(this.sent += 1)} ${this.held.op.id}`;
    const { status } = await fetch(this.url, { method: 'PUT', body: content });
    assert.ok([200, 409].includes(status), String(status));
    if (status === 200) this.stored = content;
  }

  async report(): Promise<boolean> {
    await this.held.report('STARTED');
    const { status, text } = await this.held.report('COMPLETED', MODEL);
    assert.ok([200, 400, 409].includes(status), text);
    return status === 200;
  }
}

for (const kind of ['a folder', 'a bucket'] as const) {
  describe(`in ${kind}`, () => {
    const bucket = useS3Bucket();
    let folder: string;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'longshore-late-'));
    });
    afterAll(() => rm(folder, { recursive: true, force: true }));
    const options = (): TestAppOptions => ({
      env: {
        ...(kind === 'a folder' ? { SERVICE_FILES_URL: `file:${folder}` } : bucket.env),
        // Each attempt has a worker of its own.
        SERVICE_MAX_WORKERS_PER_KEY: '100000',
      },
    });
    const service = useTestApp(options);
    const runs = new RunSteps(service.send);

    const patch = async (id: string, body: object): Promise<void> => {
      const { status, text } = await service.send('PATCH', `/runs/${id}`, { body });
      assert.ok([200, 409].includes(status), text);
    };

    /** What a client gets of the artifact: its content, or the status of the refusal. */
    const contentOf = async (id: string, send: Send = service.send): Promise<string | number> => {
      const answer = await send('GET', `/runs/${id}/artifacts/model?redirect=false`);
      if (answer.status !== 200) return answer.status;
      const content = await fetch(answer.body.url);
      assert.equal(content.status, 200);
      return content.text();
    };

    test(`what an attempt has left stays as it is when it ends, in ${ORDERS} orders of what both attempts and an admin do`, async () => {
      const seed = testSeed(20_261_130);
      const random = new SeededRandom(seed);
      for (let nth = 0; nth < ORDERS; nth += 1) {
        const order = drawOrder(random);
        const { id } = await runs.create(OUT);
        const old = new Attempt('old', await HeldRun.claim(service.send));
        let next: Attempt | undefined;
        /** What counts; undefined: no attempt has ended by a report. */
        let accepted: string | number | undefined;
        const done: Step[] = [];
        const steps: Readonly<Record<Step, () => Promise<unknown>>> = {
          'old asks': () => old.ask(),
          'old uploads': () => old.upload(),
          'old uploads again': () => old.upload(),
          'old reports': async () => {
            if (await old.report()) accepted = old.stored ?? 404;
          },
          reclaim: async () => {
            await patch(id, { state: 'PENDING' });
            next = new Attempt('new', await HeldRun.claim(service.send));
            assert.equal(next.held.op.id, id);
          },
          'new asks': async () => next?.ask(),
          'new uploads': async () => next?.upload(),
          'new uploads again': async () => next?.upload(),
          'new reports': async () => {
            if ((await next?.report()) === true) accepted = next?.stored ?? 404;
          },
          'admin sets outputs': () => patch(id, { outputs: { url: old.url ?? 'none' } }),
          'admin ends it': () => patch(id, { state: 'FAILED' }),
        };
        for (const step of order) {
          done.push(step);
          await steps[step]();
          const content = await contentOf(id);
          const about = `seed ${seed}: ${done.join(', ')}: ${content}`;
          if (kind === 'a folder' || typeof accepted !== 'string')
            assert.equal(content, accepted ?? 404, about);
          else assert.ok([accepted, 409].includes(content), about);
        }
        await patch(id, { state: 'CANCELLED' });
      }
    });

    describe('two processes of the service', () => {
      let other: TestApp;
      beforeAll(async () => {
        other = await startTestApp({ ...options(), database: service.database });
      });
      afterAll(() => other.close());

      test(`that record the end of a run while its files arrive give what they say, in ${RACES} races`, async () => {
        for (let nth = 0; nth < RACES; nth += 1) {
          const { id } = await runs.create(OUT);
          const held = await HeldRun.claim(service.send);
          await held.started();
          const { url } = (await held.urls(['model'])).body.urls.model;
          const upload = async (content: string): Promise<number> =>
            (await fetch(url, { method: 'PUT', body: content })).status;
          assert.equal(await upload('before'), 200);
          const [first, second, ...uploads] = await Promise.all([
            held.report('COMPLETED', MODEL),
            held.at(other.send).report('COMPLETED', MODEL),
            upload('meanwhile 1'),
            upload('meanwhile 2'),
          ]);
          assert.equal(Math.min(first.status, second.status), 200, first.text + second.text);
          assert.equal(Math.max(first.status, second.status), 400, first.text + second.text);
          for (const status of uploads) assert.ok([200, 409].includes(status));
          const [artifact] = (await service.send('GET', `/runs/${id}/artifacts`)).body;
          assert.equal(artifact.state, 'stored');
          const late = await upload('late');
          assert.equal(late, kind === 'a folder' ? 409 : 200);
          const contents = [await contentOf(id), await contentOf(id, other.send)];
          if (kind === 'a bucket') assert.deepEqual(contents, [409, 409]);
          else for (const content of contents) assert.equal(hash('sha256', String(content)), artifact.sha256);
        }
      });
    });
  });
}
