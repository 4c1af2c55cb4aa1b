import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { describe, test, vi } from 'vitest';
import { Stores } from '../../../src/files/stores/stores.js';
import { issueKey } from '../../support/app/api-keys.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { each, type Refusal } from '../../support/runs/refusals.js';

const NOBODY = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';
const MAX_BYTES = 1_000_000;

describe('files that clients upload', () => {
  const env = { SERVICE_FILE_MAX_BYTES: String(MAX_BYTES) };
  const service = useTestApp({ env });
  const files = new FileSteps(service.send);
  const limited = (max: number | null) =>
    issueKey(service, ['client'], { name: 'team', max_file_bytes: max });
  const statusOf = async (bytes: number, key: string) =>
    (await files.create({ name: 'f', bytes }, key)).status;

  const remove = (id: string) => service.send('DELETE', `/files/${id}`, { key: KEYS.client });

  test('are sent to a URL that needs no key, and given back as an attachment with their name', async () => {
    const content = randomBytes(100_000);
    const created = await files.create({
      name: 'täglich.csv',
      bytes: content.length,
      content_type: 'text/csv',
    });
    const { id, upload } = bodyOf(created, 'FileCreated', 201);
    assert.deepEqual([created.headers.get('cache-control'), upload.method], ['no-store', 'PUT']);
    const inHours = (Date.parse(upload.expires_at) - Date.now()) / 3_600_000;
    assert.ok(inHours > 23.9 && inHours < 24.1, upload.expires_at);
    const awaited = await files.get(id);
    assert.deepEqual(awaited, {
      id,
      name: 'täglich.csv',
      bytes: 100_000,
      sha256: null,
      content_type: 'text/csv',
      state: 'awaited',
      created_by: awaited.created_by,
      created_at: awaited.created_at,
      used_by: 0,
      removed_at: null,
    });
    const { name: keyName } = (await service.send('GET', '/whoami', { key: KEYS.client })).body;
    assert.equal(awaited.created_by.key_name, keyName);
    assertError(await files.content(id), 409, `File '${id}' is not uploaded yet`);
    assert.equal((await files.put(upload, content)).status, 200);
    assert.deepEqual(await files.get(id), { ...awaited, state: 'stored', sha256: hash('sha256', content) });

    const { url } = bodyOf(await files.content(id), 'FileUrl');
    const downloaded = await fetch(url);
    assert.deepEqual(Buffer.from(await downloaded.arrayBuffer()), content);
    assert.match(downloaded.headers.get('content-type') ?? '', /^text\/csv\b/);
    assert.match(
      downloaded.headers.get('content-disposition') ?? '',
      /^attachment; .*filename\*=UTF-8''t%C3%A4glich\.csv/,
    );
    const redirected = await fetch(`${service.url}/files/${id}/content`, {
      headers: { 'X-API-Key': KEYS.client },
      redirect: 'manual',
    });
    assert.deepEqual([redirected.status, await redirected.text()], [302, '']);
    assert.deepEqual(
      Buffer.from(await (await fetch(redirected.headers.get('location') ?? '')).arrayBuffer()),
      content,
    );
  });

  test('have ids that cannot be guessed, and are found by nothing else', async () => {
    const { id } = await files.stored('a');
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    for (const unknown of [NOBODY, 'x', id.toUpperCase()]) {
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/content'],
        ['DELETE', ''],
      ] as const) {
        const answer = await service.send(method, `/files/${unknown}${path}`);
        assertError(answer, 404, `File '${unknown}' not found`);
      }
    }
    assert.equal((await service.send('GET', '/files')).status, 404);
  });

  test('stay awaited with other bytes, with another checksum, and until the right ones come', async () => {
    const sha256 = hash('sha256', 'right');
    const { id, upload } = (await files.create({ name: 'f', bytes: 5, sha256 })).body;
    for (const wrong of ['wrong', 'longer than that', 'r']) {
      assert.equal((await files.put(upload, wrong)).status, 400, wrong);
      assert.equal((await files.get(id)).state, 'awaited');
    }
    assert.equal((await files.put(upload, 'right')).status, 200);
    assert.equal((await files.get(id)).state, 'stored');
  });

  test('stay awaited when the store has another object than the one that was announced', async () => {
    const sha256 = hash('sha256', 'other');
    const { id } = (await files.create({ name: 'f', bytes: 5, sha256 })).body;
    const head = vi.spyOn(service.app.get(Stores, { strict: false }).required(), 'head');
    const right = { key: `files/${id}`, bytes: 5, etag: 'e', sha256, modifiedAt: new Date() };
    for (const [object, state] of [
      [{ ...right, bytes: 6 }, 'awaited'],
      [{ ...right, sha256: hash('sha256', 'wrong') }, 'awaited'],
      [{ ...right, sha256: null }, 'stored'],
    ] as const) {
      head.mockResolvedValue(object);
      assert.deepEqual([(await files.get(id)).state, (await files.get(id)).sha256], [state, sha256]);
    }
  });

  test('do not change once they are stored', async () => {
    const { id, upload } = await files.stored('first');
    assert.equal((await files.put(upload, 'other')).status, 412);
    const { url } = bodyOf(await files.content(id), 'FileUrl');
    assert.equal(await (await fetch(url)).text(), 'first');
  });

  const good = { name: 'f', bytes: 1 };
  const NAME = 'name must be a string without control characters of 1 to 255 characters';
  const SHA = 'sha256 must be a SHA-256 of 64 hexadecimal digits in lower case';
  const TYPE = 'content_type must be a media type, such as text/csv, of 1 to 255 characters';
  const refused: readonly Refusal[] = [
    [{}, ['name is required', 'bytes is required']],
    ...each(NAME, (name) => ({ ...good, name }), ['', 'a\nb', 'x'.repeat(256), 1]),
    ...each('bytes must be an integer of at least 0', (bytes) => ({ ...good, bytes }), [
      -1,
      1.5,
      '1',
      2 ** 60,
    ]),
    [{ ...good, bytes: MAX_BYTES + 1 }, [`bytes must be at most ${MAX_BYTES} (SERVICE_FILE_MAX_BYTES)`]],
    ...each(SHA, (sha256) => ({ ...good, sha256 }), ['', 'a'.repeat(63), 'A'.repeat(64), 'g'.repeat(64)]),
    ...each(TYPE, (content_type) => ({ ...good, content_type }), ['', 'text', 'a/b\r\nX: 1', 'é/x']),
    [{ ...good, id: NOBODY }, ['id is not a known field']],
  ];
  for (const [body, errors] of refused) {
    test(`are not made from ${JSON.stringify(body).slice(0, 100)}`, async () =>
      assertInvalid(await service.send('POST', '/files', { body }), errors));
  }

  test('of the largest size are taken, and empty ones', async () => {
    for (const content of [Buffer.alloc(MAX_BYTES), Buffer.alloc(0)]) {
      const { id } = await files.stored(content);
      assert.deepEqual(
        [(await files.get(id)).bytes, (await files.get(id)).state],
        [content.length, 'stored'],
      );
    }
  });

  describe('with a checksum that is known', () => {
    const content = randomBytes(64);
    const body = {
      name: 'app.tar.gz',
      bytes: 64,
      sha256: hash('sha256', content),
      content_type: 'application/gzip',
    };

    test('are not sent again by the same key, and by any other one are', async () => {
      const { id } = await files.stored(content, body);
      const again = await files.create(body);
      assert.deepEqual(bodyOf(again, 'File'), await files.get(id));
      for (const other of [
        { ...body, name: 'other' },
        { ...body, content_type: undefined },
        { ...body, sha256: hash('sha256', 'x') },
        { ...body, bytes: 63 },
        { ...body, sha256: undefined },
      ]) {
        assert.equal((await files.create(other)).status, 201, JSON.stringify(other));
      }
      assert.equal((await files.create(body, KEYS.admin)).status, 201);
    });

    test('are the newest of several, and those that are only awaited do not count', async () => {
      const first = { ...body, name: 'several' };
      const [one, two] = [(await files.create(first)).body, (await files.create(first)).body];
      await files.put(one.upload, content);
      await files.get(one.id);
      assert.equal(bodyOf(await files.create(first), 'File').id, one.id);
      await files.put(two.upload, content);
      await files.get(two.id);
      assert.equal(bodyOf(await files.create(first), 'File').id, two.id);
      assert.equal((await remove(two.id)).status, 204);
      assert.equal(bodyOf(await files.create(first), 'File').id, one.id);
    });
  });

  describe('of a key with max_file_bytes', () => {
    test('are refused beyond the sum of those that exist, with Retry-After, and others are not', async () => {
      const [{ key, id }, other] = [await limited(100), await limited(null)];
      const first = (await files.create({ name: 'f', bytes: 60 }, key)).body;
      const refusal = await files.create({ name: 'f', bytes: 41 }, key);
      assertError(
        refusal,
        429,
        "The files of the API key 'team' have 60 bytes of at most 100 (max_file_bytes)",
      );
      assert.ok(Number(refusal.headers.get('retry-after')) >= 1);
      assert.deepEqual([await statusOf(40, key), await statusOf(1, key)], [201, 429]);
      assert.equal(await statusOf(1000, other.key), 201);
      assert.equal((await remove(first.id)).status, 204);
      assert.equal(await statusOf(60, key), 201);
      await service.send('PATCH', `/api-keys/${id}`, { body: { max_file_bytes: 101 } });
      assert.deepEqual([await statusOf(1, key), await statusOf(1, key)], [201, 429]);
      await service.send('PATCH', `/api-keys/${id}`, { body: { max_file_bytes: null } });
      assert.equal(await statusOf(1, key), 201);
    });

    test('count once when they are made again with the same content', async () => {
      const { key } = await limited(5);
      const body = { name: 'f', bytes: 5, sha256: hash('sha256', 'exact') };
      const { id, upload } = (await files.create(body, key)).body;
      await files.put(upload, 'exact');
      await files.get(id);
      assert.equal(bodyOf(await files.create(body, key), 'File').id, id);
      assert.equal(await statusOf(1, key), 429);
    });

    test('do not exceed it together when two processes create at once', async () => {
      const { key } = await limited(50);
      const second = await startTestApp({ env, database: service.database });
      try {
        const others = new FileSteps(second.send);
        const answers = await Promise.all(
          Array.from({ length: 20 }, (_, n) =>
            (n % 2 ? files : others).create({ name: 'f', bytes: 10 }, key),
          ),
        );
        assert.equal(answers.filter(({ status }) => status === 201).length, 5);
        assert.equal(answers.filter(({ status }) => status === 429).length, 15);
      } finally {
        await second.close();
      }
    });
  });
});
