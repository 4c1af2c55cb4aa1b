import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { withSources } from '../../../packages/cli/src/files/local-source.js';
import { uploadFile } from '../../../packages/cli/src/files/upload.js';
import { Session } from '../../../packages/cli/src/service/session.js';
import { Output } from '../../../packages/cli/src/terminal/output.js';
import { FileRemovalJob } from '../../../src/files/uploads/file-removal.job.js';
import type { PartUploads } from '../../../src/files/stores/file-store.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { currentTime, rows } from '../../../src/database/sql/sql.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps, passHours } from '../../support/files/file-steps.js';
import { useS3Bucket } from '../../support/files/s3-bucket.js';
import { withClient } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';

const PART = 5_242_880;

describe('files that clients upload to a bucket', () => {
  let folder: string;
  const bucket = useS3Bucket();

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-parts-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const service = useTestApp(() => ({
    env: {
      ...bucket.env,
      SERVICE_FILE_PART_BYTES: String(PART),
      SERVICE_FILE_MAX_BYTES: String(10_000 * PART * 2),
    },
  }));
  const files = new FileSteps(service.send);
  const complete = (id: string, etags: readonly unknown[]) =>
    service.send('POST', `/files/${id}/complete`, { body: { etags }, key: KEYS.client });
  const content = async (id: string): Promise<Buffer> => {
    const { url } = bodyOf(await files.content(id), 'FileUrl');
    return Buffer.from(await (await fetch(url)).arrayBuffer());
  };
  /** Makes a file of several parts. */
  const large = async (bytes: number) =>
    bodyOf(await files.create({ name: 'large.bin', bytes }), 'FileCreated', 201);
  const uploadOf = async (id: string): Promise<string> => {
    const [row] = await rows<{ upload_id: string }>(
      service.dataSource,
      'select upload_id from files where id = $1::uuid',
      [id],
    );
    return row?.upload_id ?? assert.fail('it is uploaded in parts');
  };
  /** What a command line and the Python client send of a file of several parts. */
  const send = {
    'the command line': (path: string) =>
      withSources([path], async (sources) => {
        const output = new Output(new PassThrough(), new PassThrough(), {});
        const connection = { url: service.url, apiKey: KEYS.client };
        const session = new Session(connection, output, new AbortController().signal);
        return uploadFile(session, sources.get(path) ?? assert.fail());
      }),
    'the Python client': async (path: string) =>
      (
        await withClient(
          service.url,
          `from longshore.files import _Local\nfrom pathlib import Path\nprint(api._upload(_Local(Path("${path}"), None))["file"])`,
          { SERVICE_API_KEY: KEYS.client },
        )
      ).trim(),
  };
  const parts = (): PartUploads =>
    service.app.get(Stores, { strict: false }).required().parts ?? assert.fail('a bucket takes parts');

  for (const [by, sendBy] of Object.entries(send)) {
    const needed = by === 'the Python client' ? whyNoPython() : false;
    test(`are sent in parts by ${by}, and once`, skipFor(needed), async () => {
      const path = join(folder, 'sent');
      const sent = Buffer.concat([Buffer.from(by), randomBytes(2 * PART + 7)]);
      await writeFile(path, sent);
      const id = await sendBy(path);
      assert.equal((await files.get(id)).state, 'stored');
      assert.deepEqual(await content(id), sent);
      assert.equal(await sendBy(path), id);
      await writeFile(path, by);
      assert.equal(String(await content(await sendBy(path))), by);
    });
  }

  test('go there in one piece up to SERVICE_FILE_PART_BYTES, and the service sees that they have arrived', async () => {
    const small = randomBytes(1000);
    const { id } = await files.stored(small, { name: 'small.bin', bytes: small.length });
    assert.deepEqual(await content(id), small);
    assert.deepEqual(bodyOf(await complete(id, ['"x"']), 'File'), await files.get(id));
  });

  test('above it go in parts, which are completed once, however often that is asked', async () => {
    const bytes = randomBytes(2 * PART + 100);
    const { id, upload } = await large(bytes.length);
    assert.deepEqual(
      upload.parts.map((part: { number: number; bytes: number }) => [part.number, part.bytes]),
      [
        [1, PART],
        [2, PART],
        [3, 100],
      ],
    );
    const etags: (string | null)[] = [];
    for (const part of upload.parts) {
      const begin = (part.number - 1) * PART;
      const answer = await files.put(part, bytes.subarray(begin, begin + part.bytes));
      assert.equal(answer.status, 200, await answer.text());
      etags.push(answer.headers.get('etag'));
    }
    assert.equal((await files.get(id)).state, 'awaited');
    assertInvalid(await complete(id, etags.slice(1)), ['etags must have 3 items, one for each part']);
    assertInvalid(await complete(id, []), [
      'etags must be a list of 1 to 10000 items, each an ETag of visible ASCII characters of 1 to 128 characters',
    ]);
    const answers = await Promise.all([complete(id, etags), complete(id, etags)]);
    const stored = await files.get(id);
    assert.equal(stored.state, 'stored');
    for (const answer of [...answers, await complete(id, etags)]) {
      assert.deepEqual(bodyOf(answer, 'File'), stored);
    }
    assert.deepEqual(await content(id), bytes);
  });

  test('of any size have 10,000 parts at most', async () => {
    const bytes = 10_000 * PART + 1;
    const signed = { method: 'PUT', url: 'https://bucket/', headers: {}, expiresAt: new Date() } as const;
    vi.spyOn(parts(), 'signPart').mockResolvedValue(signed);
    const { upload } = await large(bytes);
    const sizes: number[] = upload.parts.map((part: { bytes: number }) => part.bytes);
    assert.ok(sizes.length <= 10_000);
    assert.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      bytes,
    );
  });

  test('and in one piece cannot be completed', async () => {
    const { id } = (await files.create({ name: 'f', bytes: 1 })).body;
    assertError(await complete(id, ['"x"']), 409, `File '${id}' is not uploaded in parts`);
  });

  test('are aborted when they are deleted, or not completed within 24 hours', async () => {
    await service.dataSource.query('delete from files');
    const [deleted, late] = [await large(PART + 1), await large(PART + 1)];
    const uploads = [await uploadOf(deleted.id), await uploadOf(late.id)];
    // This bucket has no such request.
    const abort = vi.spyOn(parts(), 'abort').mockResolvedValue();
    assert.equal((await service.send('DELETE', `/files/${deleted.id}`)).status, 204);
    await passHours(service.dataSource, 25);
    const job = service.app.get(FileRemovalJob, { strict: false });
    await job.runOnce(await currentTime(service.dataSource));
    assert.deepEqual(
      abort.mock.calls,
      [deleted, late].map(({ id }, n) => [`files/${id}`, uploads[n]]),
    );
    for (const { id } of [deleted, late]) {
      assertError(await complete(id, ['"x"', '"y"']), 404, `File '${id}' not found`);
    }
  });
});
