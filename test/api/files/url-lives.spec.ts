import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { describe, test, vi } from 'vitest';
import { storeFile } from '../../../packages/worker/src/artifacts/collect.js';
import { artifactsPayload, readUploads } from '../../../packages/worker/src/service-api/run-artifacts.js';
import { QUICK_CLOCK, SILENT_CLOCK } from '../../../packages/worker/src/testing/quick-clocks.js';
import { Clock } from '../../../src/common/clock.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { letTimePass } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { atDepth } from '../../support/depth.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { HeldRun } from '../../support/files/held-run.js';
import { useS3Bucket } from '../../support/files/s3-bucket.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const DAY_S = 86_400;
const MIB = 2 ** 20;

async function put(url: string, body: string): Promise<number> {
  return (await fetch(url, { method: 'PUT', body })).status;
}

/** URLs of all that a run gets and leaves. */
async function urlsOf(held: HeldRun): Promise<{ readonly in: string[]; readonly out: string[] }> {
  return {
    in: [held.op.artifacts.in['/in'].get.url, held.op.inputs.table],
    out: [(await held.get()).outputs.report, (await held.urls(['model'])).body.urls.model.url],
  };
}

function uploadOf({ url }: { readonly url: string }): string | null {
  return new URL(url).searchParams.get('uploadId');
}

describe('a run that waits longer than any URL lives', () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  const runs = new RunSteps(service.send);

  test('gets and leaves files at URLs of its claim, while those of before are refused', async () => {
    const { id: file, upload } = await files.stored('rows');
    const body = {
      inputs: { table: { $artifact: { file } } },
      outputs: { report: { $artifact: 'report' } },
      artifacts: { in: { '/in': { file } }, out: { model: { path: '/out/model' } } },
    };
    await runs.create(body);
    const early = await HeldRun.claim(service.send);
    await early.started();
    const { id } = await runs.create({ ...body, timeouts: { attempt_s: 60 } });
    const before = await urlsOf(early);
    const { url: content } = (await files.content(file)).body;

    let aheadS = 0;
    vi.spyOn(Clock.prototype, 'epochMs').mockImplementation(() => Date.now() + aheadS * 1000);
    aheadS = 30 * DAY_S;
    await letTimePass(service.dataSource, [id], aheadS);
    for (const url of [content, ...before.in]) assert.equal((await fetch(url)).status, 403);
    for (const url of [upload.url, ...before.out]) assert.equal(await put(url, 'late'), 403);
    const late = await HeldRun.claim(service.send);
    assert.equal(late.op.id, id);
    await late.started();
    const now = await urlsOf(late);
    for (const url of now.in) assert.equal(await (await fetch(url)).text(), 'rows');
    for (const url of now.out) assert.equal(await put(url, 'of the run'), 200);
    const ended = await late.report('COMPLETED', { outputs: {}, artifacts: [{ name: 'model' }] });
    assert.equal(ended.body.state, 'COMPLETED');
    for (const name of ['model', 'report']) {
      const { url } = (await service.send('GET', `/runs/${id}/artifacts/${name}?redirect=false`)).body;
      assert.equal(await (await fetch(url)).text(), 'of the run');
    }

    // The one that has held its run all the time asks anew.
    const anew = await early.get();
    assert.equal(await (await fetch(anew.inputs.table)).text(), 'rows');
    assert.equal(await (await fetch(anew.artifacts.in['/in'].get.url)).text(), 'rows');
    assert.equal(await put(anew.outputs.report, 'still there'), 200);
  });
});

/** Bytes of a part, and of a file that goes in many. */
const PART = atDepth({ fast: 5, all: 5, soak: 512 }) * MIB;
const LARGE =
  Number(process.env['TEST_LARGE_BYTES'] ?? atDepth({ fast: 30, all: 100, soak: 20_000 }) * MIB) + 7;

describe('a bucket', () => {
  const bucket = useS3Bucket();
  const service = useTestApp(() => ({
    env: { ...bucket.env, SERVICE_FILE_PART_BYTES: String(PART) },
  }));
  const files = new FileSteps(service.send);
  const runs = new RunSteps(service.send);

  /** A run that has started, and whose worker may send `big`. */
  const started = async (): Promise<HeldRun> => {
    await runs.create({ artifacts: { out: { big: { path: '/out/big' } } } });
    const held = await HeldRun.claim(service.send);
    await held.started();
    return held;
  };

  // A machine that writes 10 MB a second is slow enough.
  const timeout = 900_000 + LARGE / 10_000;

  test('takes a file in parts although the URLs of a minute expire on the way', { timeout }, async (t) => {
    const parts = service.app.get(Stores, { strict: false }).required().parts ?? assert.fail();
    const sign = parts.signPart.bind(parts);
    vi.spyOn(parts, 'signPart').mockImplementation((key, upload, number, { bytes }) =>
      sign(key, upload, number, { bytes, validS: 60 }),
    );
    const held = await started();
    const folder = await mkdtemp(join(tmpdir(), 'longshore-large-'));
    const path = join(folder, 'large');
    const file = await open(path, 'w');
    await file.truncate(LARGE);
    await file.write('the end', LARGE - 7);
    await file.close();
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    let furthest = 0;
    /** Each part takes 25 seconds. */
    async function* read(): AsyncGenerator<Buffer> {
      let at = 0;
      for await (const chunk of createReadStream(path, { highWaterMark: MIB })) {
        const bytes = Buffer.from(chunk);
        at += bytes.length;
        if (Math.floor(at / PART) > furthest) {
          furthest = Math.floor(at / PART);
          vi.setSystemTime(Date.now() + 25_000);
          await held.heartbeat();
        }
        yield bytes;
      }
    }
    const asked: (number | undefined)[] = [];
    const startMs = performance.now();
    try {
      const stored = await storeFile(
        {
          name: 'big',
          path: '/out/big',
          bytes: LARGE,
          open: async () => ({ bytes: LARGE, content: Readable.from(read()) }),
        },
        undefined,
        {
          clock: QUICK_CLOCK,
          random: () => 0,
          log: { clock: SILENT_CLOCK, note: () => undefined },
          getUploads: async ({ names, ...more }) => {
            asked.push(more.first_part);
            const answer = await held.urls(names, more);
            return readUploads(answer.body) ?? assert.fail(answer.text);
          },
        },
        new AbortController().signal,
      );
      const sentMs = performance.now();
      assert.equal(stored.etags?.length, Math.ceil(LARGE / PART));
      assert.ok(asked.length > 1 && asked.slice(1).every((part) => part !== undefined), asked.join());
      // A store that puts the parts together takes its time, and a request is repeated whose answer does not come.
      const report = () =>
        held.report('COMPLETED', artifactsPayload([stored])).catch((error: unknown) => {
          if (error instanceof TypeError) return null;
          throw error;
        });
      let ended = await report();
      while (ended === null || ended.status === 503) {
        await held.heartbeat();
        ended = await report();
      }
      assert.equal(ended.body.state, 'COMPLETED', ended.text);
      const endedMs = performance.now();
      const [artifact] = (await service.send('GET', `/runs/${held.op.id}/artifacts`)).body;
      assert.deepEqual([artifact.state, artifact.bytes, artifact.sha256], ['stored', LARGE, stored.sha256]);
      const { url } = (await service.send('GET', `/runs/${held.op.id}/artifacts/big?redirect=false`)).body;
      const sum = createHash('sha256');
      for await (const chunk of (await fetch(url)).body ?? assert.fail()) sum.update(chunk);
      assert.equal(sum.digest('hex'), stored.sha256);
      const times = [sentMs - startMs, endedMs - sentMs, performance.now() - endedMs].map(Math.round);
      await t.annotate(
        `${LARGE} bytes, ${stored.etags?.length} parts, URLs asked for ${asked.length} times; ms to send, complete, fetch: ${times.join()}`,
      );
    } finally {
      vi.useRealTimers();
      await rm(folder, { recursive: true, force: true });
    }
  });

  test('goes on with no upload that was not begun, or has no such part', async () => {
    const held = await started();
    const problem = "first_part: no upload of 'big' is open that has this part";
    const bytes = PART + 1;
    assertInvalid(await held.urls(['big'], { bytes, first_part: 1 }), [problem]);
    assertInvalid(await held.urls(['big'], { first_part: 1 }), ['first_part is only with bytes']);
    const begun = (await held.urls(['big'], { bytes })).body.urls.big.parts;
    const [second, ...others] = (await held.urls(['big'], { bytes, first_part: 2 })).body.urls.big.parts;
    assert.deepEqual(others, []);
    assert.deepEqual([second.number, second.bytes], [2, 1]);
    assert.equal(uploadOf(second), uploadOf(begun[1]));
    assertInvalid(await held.urls(['big'], { bytes, first_part: 3 }), [problem]);
    assertInvalid(await held.urls(['big'], { bytes: 1, first_part: 1 }), [problem]);
  });

  test('takes no success of a run whose parts it does not have, and then a failure', async () => {
    const held = await started();
    const report = { artifacts: [{ name: 'big', etags: ['"none"'] }] };
    const refusal = "The store does not have the parts of 'big'";
    assertError(await held.report('COMPLETED', report), 400, refusal);
    assert.equal((await runs.get(held.op.id)).state, 'RUNNING');
    const ended = await held.report('FAILED', { ...report, error_message: refusal });
    assert.deepEqual([ended.status, ended.body.state], [200, 'FAILED'], ended.text);
    const [artifact] = (await service.send('GET', `/runs/${held.op.id}/artifacts`)).body;
    assert.deepEqual([artifact.name, artifact.state], ['big', 'missing']);
  });

  test('gives what a browser would execute as an attachment of its type, at a URL that says nothing else', async () => {
    for (const [name, type] of [
      ['page.html', 'text/html'],
      ['picture.svg', 'image/svg+xml'],
    ] as const) {
      const content = `<svg onload="alert(1)">${name}`;
      const { id } = await files.stored(content, { name, bytes: content.length, content_type: type });
      const { url } = bodyOf(await files.content(id), 'FileUrl');
      const { headers, status } = await fetch(url);
      assert.deepEqual(
        [status, headers.get('content-disposition'), headers.get('content-type')],
        [200, `attachment; filename=${name}`, type],
      );
      for (const parameter of ['response-content-disposition', 'response-content-type']) {
        const changed = new URL(url);
        changed.searchParams.set(parameter, 'inline');
        assert.equal((await fetch(changed)).status, 403);
        changed.searchParams.delete(parameter);
        assert.equal((await fetch(changed)).status, 403);
      }
    }
  });
});
