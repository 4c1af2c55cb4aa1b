import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { variables } from '../../support/runs/numbered-texts.js';
import { KEYS, settingsName, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const VALUE = 'hunter2-of-the-tests';
const LOGIN = { server: 'registry.example.com:5000', username: 'ci', password: VALUE };
const LIMIT = 65_536;

const namesOf = ({ body }: TestAnswer): string[] => body.map(({ name }: { name: string }) => name);
const statusesOf = (answers: readonly TestAnswer[]): string[] =>
  answers.map(({ status }) => String(status)).toSorted();

describe('secrets', () => {
  const service = useTestApp();

  const put = (name: string, body: unknown): Promise<TestAnswer> =>
    service.send('PUT', `/secrets/${name}`, { body });
  const list = (query = ''): Promise<TestAnswer> => service.send('GET', `/secrets${query}`);

  test('are created with 201 and replaced with 200, and no answer has the value', async () => {
    const made = await put('db', { kind: 'opaque', value: VALUE });
    assert.equal(made.status, 201, made.text);
    const { created_at: createdAt, updated_at: updatedAt, ...rest } = made.body;
    assert.deepEqual(rest, { name: 'db', kind: 'opaque' });
    assert.equal(createdAt, updatedAt);
    const replaced = await put('db', { kind: 'registry', value: LOGIN });
    assert.equal(replaced.status, 200, replaced.text);
    assert.equal(replaced.body.kind, 'registry');
    assert.equal(replaced.body.created_at, createdAt);
    assert.ok(replaced.body.updated_at >= updatedAt);
    const listed = await list();
    assert.deepEqual(listed.body, [replaced.body]);
    for (const { text } of [made, replaced, listed]) assert.ok(!text.includes(VALUE));
  });

  test('are deleted with 204, and are then unknown', async () => {
    await put('gone', { kind: 'opaque', value: VALUE });
    const deleted = await service.send('DELETE', '/secrets/gone');
    assert.deepEqual([deleted.status, deleted.text], [204, '']);
    assertError(await service.send('DELETE', '/secrets/gone'), 404, "Secret 'gone' not found");
    assertError(await service.send('DELETE', '/secrets/%20'), 404, "Secret ' ' not found");
    assert.ok(!namesOf(await list()).includes('gone'));
  });

  test('are listed by name in pages that the header Link continues', async () => {
    const made = ['page.a', 'page-b', 'page_c', 'page.d', '9', 'Page'];
    for (const name of made) await put(name, { kind: 'opaque', value: '' });
    const all = namesOf(await list());
    for (const name of made) assert.ok(all.includes(name), name);
    const paged: string[] = [];
    let path: string | undefined = '?limit=2';
    while (path !== undefined) {
      const page: TestAnswer = await list(path);
      paged.push(...namesOf(page));
      path = /<(\?[^>]*)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1];
    }
    assert.deepEqual(paged, all);
    for (const query of ['?limit=0', '?limit=1001', '?after=%20', '?kind=opaque']) {
      assert.equal((await list(query)).status, 400, query);
    }
  });

  for (const name of ['a%20b', 'a%2Fb', '%C3%A9', 'a%0A', '-a', '.a', 'x'.repeat(129)]) {
    test(`may not be named ${name.slice(0, 12)}`, async () => {
      const rule = 'a name of letters, digits, ".", "_" and "-" that starts with a letter or digit';
      assertInvalid(await put(name, { kind: 'opaque', value: '' }), [
        `name must be ${rule} of 1 to 128 characters`,
      ]);
    });
  }

  for (const name of ['x'.repeat(128), 'rotate', 'constructor', 'A.b_c-9']) {
    test(`may be named ${name.slice(0, 12)}`, async () => {
      assert.equal((await put(name, { kind: 'opaque', value: '' })).status, 201);
    });
  }

  const bytes = `value must be a string of at most ${LIMIT} bytes`;
  const tooLong = Buffer.alloc(LIMIT + 1).toString('base64');
  const object = 'value must be an object {server, username, password}, or its JSON text';
  const map =
    'value must be an object of at most 100 variables to strings, or its JSON text; a name has letters, digits, "_", "-" and ".", not starting ' +
    'with a digit, and none of SERVICE_INPUT_PATH, SERVICE_OUTPUT_PATH, SERVICE_RUN_ID, SERVICE_RUN_ATTEMPT, SERVICE_CPU, SERVICE_RAM_MB, SERVICE_SCHEDULED_FOR, SERVICE_ARRAY_INDEX, SERVICE_ARRAY_SIZE, SERVICE_FILES_ROOT';
  for (const [title, body, problems] of [
    ...['no JSON', '["a"]', { A: 1 }, { [`${VALUE}/`]: VALUE }, { SERVICE_CPU: VALUE }, variables(101)].map(
      (value) => [`${JSON.stringify(value).slice(0, 20)} for map`, { kind: 'map', value }, [map]] as const,
    ),
    ['a map that is too long', { kind: 'map', value: { A: 'x'.repeat(LIMIT) } }, [bytes]],
    ['no kind', { value: VALUE }, ['kind is required']],
    ['another kind', { kind: VALUE, value: VALUE }, ['kind must be one of opaque, registry, map']],
    ['no value', { kind: 'opaque' }, ['either value or value_base64 is required']],
    [
      'a text and bytes',
      { kind: 'opaque', value: '', value_base64: '' },
      ['value and value_base64 must not be given together'],
    ],
    ...(['map', 'registry'] as const).map(
      (kind) =>
        [
          `bytes for ${kind}`,
          { kind, value_base64: 'e30=' },
          ['value_base64 must be given only for the kind opaque'],
        ] as const,
    ),
    ...[Buffer.from(VALUE).toString('base64url'), `${VALUE}*`, tooLong].map(
      (base64) =>
        [
          `${base64.slice(0, 30)} in base64`,
          { kind: 'opaque', value_base64: base64 },
          [`value_base64 must be base64 of at most ${LIMIT} bytes, with padding and without line breaks`],
        ] as const,
    ),
    [
      'a number',
      { kind: 'opaque', value: 7 },
      ['value must be a string, or an object for the kinds registry and map'],
    ],
    ['another field', { kind: 'opaque', value: VALUE, more: 1 }, ['more is not a known field']],
    ['an object for opaque', { kind: 'opaque', value: { a: VALUE } }, [bytes]],
    ['a text that is too long', { kind: 'opaque', value: 'é'.repeat(LIMIT / 2 + 1) }, [bytes]],
    ['a text for registry that is no JSON', { kind: 'registry', value: VALUE }, [object]],
    ['a list for registry', { kind: 'registry', value: `["${VALUE}"]` }, [object]],
    [
      'a login that lacks a member',
      { kind: 'registry', value: { server: 'r', password: VALUE } },
      ['value.username is required'],
    ],
    [
      'a login with another member',
      { kind: 'registry', value: { ...LOGIN, [VALUE]: VALUE } },
      ['value has an unknown field'],
    ],
    [
      'a login with wrong members',
      { kind: 'registry', value: { server: 'a b', username: 'a\nb', password: 7 } },
      [
        'value.server must be a host name without white space of 1 to 255 characters',
        'value.username must be a string without control characters of 1 to 255 characters',
        'value.password must be a string of 1 to 65536 characters',
      ],
    ],
    [
      'a login that is too long',
      { kind: 'registry', value: { ...LOGIN, password: 'x'.repeat(LIMIT) } },
      [bytes],
    ],
  ] as const) {
    test(`with ${title} are refused, and the answer repeats nothing of the value`, async () => {
      const answer = await put('refused', body);
      assertInvalid(answer, [...problems]);
      assert.ok(!answer.text.includes(VALUE));
      assert.ok(!namesOf(await list()).includes('refused'));
    });
  }

  test('may have any text up to 64 KiB, and a login and variables as JSON text', async () => {
    for (const body of [
      { kind: 'opaque', value: 'é'.repeat(LIMIT / 2) },
      { kind: 'opaque', value_base64: Buffer.alloc(LIMIT, 0xff).toString('base64') },
      { kind: 'opaque', value: 'two\nlines\t"\\' },
      { kind: 'registry', value: JSON.stringify(LOGIN) },
      { kind: 'map', value: JSON.stringify({ A: 'x'.repeat(LIMIT - 8) }) },
      { kind: 'map', value: variables(100) },
    ]) {
      assert.ok((await put('any', body)).status < 300);
    }
  });

  test('have their changes in the audit log, without values', async () => {
    await put('audited', { kind: 'opaque', value: VALUE });
    await put('audited', { kind: 'registry', value: LOGIN });
    await service.send('DELETE', '/secrets/audited');
    await service.send('DELETE', '/secrets/audited');
    const { body, text } = await service.send('GET', '/audit?limit=3');
    const entry = { key_name: settingsName('admin', KEYS.admin), subject: 'audited', run_id: null };
    assert.deepEqual(
      body.map(({ id: _id, t: _t, ...rest }: Record<string, unknown>) => rest),
      [
        { ...entry, action: 'secret.delete', before: { kind: 'registry' }, after: {} },
        { ...entry, action: 'secret.replace', before: {}, after: { kind: 'registry' } },
        { ...entry, action: 'secret.create', before: {}, after: { kind: 'opaque' } },
      ],
    );
    assert.ok(!text.includes(VALUE));
  });

  test('that are created by several requests at once are created once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, n) => put('raced', { kind: 'opaque', value: String(n) })),
    );
    assert.deepEqual(statusesOf(answers), [...Array<string>(9).fill('200'), '201']);
    const deleted = await Promise.all(
      Array.from({ length: 5 }, () => service.send('DELETE', '/secrets/raced')),
    );
    assert.deepEqual(statusesOf(deleted), ['204', '404', '404', '404', '404']);
  });

  test('change only together with their entry in the audit log', async () => {
    await put('kept', { kind: 'opaque', value: VALUE });
    await service.dataSource.query(
      `alter table audit_entries add constraint closed check (action = 'run.patch') not valid`,
    );
    try {
      assert.equal((await put('unaudited', { kind: 'opaque', value: VALUE })).status, 500);
      assert.equal((await service.send('DELETE', '/secrets/kept')).status, 500);
    } finally {
      await service.dataSource.query('alter table audit_entries drop constraint closed');
    }
    const names = namesOf(await list());
    assert.ok(names.includes('kept') && !names.includes('unaudited'));
  });
});

describe('without SERVICE_SECRETS_KEY', () => {
  const service = useTestApp({ env: { SERVICE_SECRETS_KEY: '' } });
  const problem = ['the operator must set SERVICE_SECRETS_KEY'];

  for (const [method, path, body] of [
    ['PUT', '/secrets/a', { kind: 'opaque', value: VALUE }],
    ['GET', '/secrets', undefined],
    ['DELETE', '/secrets/a', undefined],
    ['POST', '/secrets/rotate', undefined],
  ] as const) {
    test(`${method} ${path} is 503, and is not to be retried`, async () => {
      const answer = await service.send(method, path, { body });
      assertError(answer, 503, 'Secrets are not configured', problem);
      assert.equal(answer.headers.get('retry-after'), null);
    });
  }

  for (const used of [
    { secrets: { TOKEN: 'a' } },
    { secrets_from: [{ secret: 'a' }] },
    { image_pull_secret: 'a' },
    { files: { '/a': { secret: 'a' } } },
  ])
    test(`a run with ${JSON.stringify(used)} is 503, however it is created, and nothing is stored`, async () => {
      const run = { image: 'i', ...used };
      for (const path of ['/runs', '/runs?dry_run=true'])
        assertError(
          await service.send('POST', path, { body: run }),
          503,
          'Secrets are not configured',
          problem,
        );
      const batch = await service.send('POST', '/runs/batch', { body: { runs: [run, { image: 'plain' }] } });
      assert.deepEqual(
        batch.body.results.map(({ status }: { status: number }) => status),
        [503, 201],
      );
      const definition = { id: 'd', version: 'v1', image: 'i', ...used };
      assert.equal((await service.send('POST', '/definitions', { body: definition })).status < 300, true);
      assertError(
        await service.send('POST', '/definitions/d/runs', { body: {} }),
        503,
        'Secrets are not configured',
        problem,
      );
      const { body } = await service.send('GET', '/runs?image=i');
      assert.deepEqual(body.data, []);
    });

  test('a run whose blocks of secrets are empty is created', async () => {
    const body = { image: 'i', secrets: {}, secrets_from: [], files: {}, image_pull_secret: null };
    assert.equal((await service.send('POST', '/runs', { body })).status, 201);
  });
});
