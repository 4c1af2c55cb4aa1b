import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { issueKey } from '../../support/app/api-keys.js';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { CAPABLE, fence, heldRun, type UsedSecrets } from '../../support/app/secrets.js';
import {
  KEYS,
  newSecretsKey,
  settingsName,
  startTestApp,
  type TestAnswer,
} from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const KEY = newSecretsKey();
const LOGIN = { server: 'registry.example.com', username: 'ci', password: 'hunter2' };
const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';

const missing = (name: string): string => `header ${name} is required`;

describe('the secrets of a run', () => {
  const service = useTestApp({ env: { SERVICE_SECRETS_KEY: KEY } });
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    await put('db', { kind: 'opaque', value: 'hunter2 \u{1F511}\n"' });
    await put('token', { kind: 'opaque', value: '' });
    await put('constructor', { kind: 'opaque', value: 'built' });
    await put('login', { kind: 'registry', value: LOGIN });
  });

  const put = async (name: string, body: object): Promise<void> => {
    assert.ok((await service.send('PUT', `/secrets/${name}`, { body })).status < 300);
  };
  const read = (id: string, headers = fence(), key: string = KEYS.worker): Promise<TestAnswer> =>
    service.send('GET', `/runs/${id}/secrets`, { key, headers });
  const held = (used: UsedSecrets, worker?: string): Promise<string> => heldRun(service.send, used, worker);

  test('are given to the worker that holds it, by variable, with the login for the pull, and are not stored on the way', async () => {
    const id = await held({
      secrets: { PASSWORD: 'db', AGAIN: 'db', TOKEN: 'token', __proto__x: 'constructor' },
      image_pull_secret: 'login',
    });
    const answer = await read(id);
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.body, {
      env: {
        PASSWORD: 'hunter2 \u{1F511}\n"',
        AGAIN: 'hunter2 \u{1F511}\n"',
        TOKEN: '',
        __proto__x: 'built',
      },
      files: {},
      registry: LOGIN,
    });
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.equal(answer.headers.get('etag'), null);
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    assert.deepEqual((await read(id)).body, answer.body);
  });

  test('are empty for a run that uses none', async () => {
    for (const used of [{}, { secrets: {} }]) {
      assert.deepEqual((await read(await held(used))).body, { env: {}, files: {}, registry: null });
    }
  });

  test('of secrets_from are those of each map, a later one and those of secrets above them, with their prefixes', async () => {
    await put('map', { kind: 'map', value: { USER: 'ada', PASSWORD: 'of the map', toString: '' } });
    await put('map-text', { kind: 'map', value: '{"USER": "\u{1F511}"}' });
    const id = await held({
      secrets: { PASSWORD: 'db' },
      secrets_from: [{ secret: 'map' }, { secret: 'map-text' }, { secret: 'map', prefix: 'DB_' }],
    });
    assert.deepEqual((await read(id)).body, {
      env: {
        USER: '\u{1F511}',
        PASSWORD: 'hunter2 \u{1F511}\n"',
        toString: '',
        DB_USER: 'ada',
        DB_PASSWORD: 'of the map',
        DB_toString: '',
      },
      files: {},
      registry: null,
    });
    assert.deepEqual((await readsOf(id))[0].after.secrets, ['db', 'map', 'map-text']);
  });

  test('of secrets_from are 404 when the secret is missing, of another kind, or gives a variable that the run may not set', async () => {
    await put('rest', { kind: 'map', value: { ERVICE_CPU: '1' } });
    for (const [secret, detail] of [
      ['no-map', "Secret 'no-map' not found"],
      ['db', "Secret 'db' of kind 'map' not found: it is of kind 'opaque'"],
      ['rest', "Secret 'rest' gives the variable 'SERVICE_CPU', which this run may not set"],
    ] as const) {
      const id = await held({ secrets_from: [{ secret, prefix: 'S' }] });
      assertError(await read(id), 404, detail);
      assert.deepEqual(await readsOf(id), []);
    }
    const files = { '/key': { content: '', env: 'KEY_FILE' } };
    await put('rest', { kind: 'map', value: { EY_FILE: '1' } });
    const taken = await held({ secrets_from: [{ secret: 'rest', prefix: 'K' }], files });
    assertError(
      await read(taken),
      404,
      "Secret 'rest' gives the variable 'KEY_FILE', which this run may not set",
    );
    await put('variables', { kind: 'map', value: {} });
    assertError(
      await read(await held({ secrets: { A: 'variables' } })),
      404,
      "Secret 'variables' of kind 'opaque' not found: it is of kind 'map'",
    );
  });

  test('of files are given by path, and are 404 like others', async () => {
    const id = await held({
      files: {
        '/etc/a': { content: 'a' },
        '/etc/key': { secret: 'db', env: 'KEY' },
        '/token': { secret: 'token' },
      },
    });
    const files = { '/etc/key': 'hunter2 \u{1F511}\n"', '/token': '' };
    assert.deepEqual((await read(id)).body, { env: {}, files, registry: null });
    assert.deepEqual((await readsOf(id))[0].after.secrets, ['db', 'token']);
    for (const [secret, detail] of [
      ['no-file', "Secret 'no-file' not found"],
      ['login', "Secret 'login' of kind 'opaque' not found: it is of kind 'registry'"],
    ] as const) {
      assertError(await read(await held({ files: { '/a': { secret } } })), 404, detail);
    }
  });

  test('that are bytes are given to files in base64 byte by byte, and to no variable', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('base64');
    await put('keystore', { kind: 'opaque', value_base64: bytes });
    await put('nul', { kind: 'opaque', value_base64: 'YQBi' });
    await put('text', { kind: 'opaque', value_base64: Buffer.from('\ufeffü').toString('base64') });
    const files = {
      '/k.p12': { secret: 'keystore' },
      '/nul': { secret: 'nul' },
      '/text': { secret: 'text' },
    };
    const id = await held({ files, secrets: { TEXT: 'text' } });
    const given = {
      env: { TEXT: '\ufeffü' },
      files: { '/text': '\ufeffü' },
      files_base64: { '/k.p12': bytes, '/nul': 'YQBi' },
      registry: null,
    };
    assert.deepEqual((await read(id)).body, given);
    assert.equal((await service.send('POST', '/secrets/rotate', {})).status, 200);
    assert.deepEqual((await read(id)).body, given);
    for (const secret of ['keystore', 'nul']) {
      const detail = `Secret '${secret}' as a text not found: it is binary, which only files of a run can have`;
      const refused = await held({ secrets: { A: secret } });
      assertError(await read(refused), 404, detail);
      assert.deepEqual(await readsOf(refused), []);
    }
  });

  test('need both fencing headers', async () => {
    const id = await held({ secrets: { PASSWORD: 'db' } });
    assertInvalid(await read(id, {}), [missing('X-Worker-Id'), missing('X-Run-Attempt')]);
    assertInvalid(await read(id, { 'X-Worker-Id': 'w' }), [missing('X-Run-Attempt')]);
    assertInvalid(await read(id, { 'X-Run-Attempt': '1' }), [missing('X-Worker-Id')]);
    for (const attempt of ['0', 'x', '1001']) {
      assert.equal((await read(id, { ...fence(), 'X-Run-Attempt': attempt })).status, 400);
    }
  });

  test('are refused with 409 to every other worker and attempt, and whenever it is not in execution', async () => {
    const used = { secrets: { PASSWORD: 'db', MISSING: 'no-such-secret' } };
    const id = await held(used, 'holder');
    const other = (worker: string): string => `Run '${id}' is not assigned to worker '${worker}'`;
    assertError(await read(id, fence('w')), 409, other('w'));
    assertError(await read(id, fence('holder', 2)), 409, `Run '${id}' attempt 2 is not current`);
    await steps.event(id, 'RETRIED', { force: true });
    assertError(await read(id, fence('holder')), 409, other('holder'));
    await steps.heartbeat('second', CAPABLE);
    await steps.claimUntil(id, 'second');
    assertError(await read(id, fence('holder')), 409, other('holder'));
    assertError(await read(id, fence('second', 1)), 409, `Run '${id}' attempt 1 is not current`);
    await steps.event(id, 'CANCELLED');
    assertError(await read(id, fence('second', 2)), 409, other('second'));
    for (const unknown of [UNKNOWN, 'x']) {
      assertError(await read(unknown), 404, `OpRun '${unknown}' not found`);
    }
  });

  test('that do not exist are 404 with the name of the first; one that is created later is found', async () => {
    const id = await held({ secrets: { PASSWORD: 'db', LATE: 'late' }, image_pull_secret: 'late-login' });
    assertError(await read(id), 404, "Secret 'late' not found");
    await put('late', { kind: 'opaque', value: 'made later' });
    assertError(await read(id), 404, "Secret 'late-login' not found");
    await put('late-login', { kind: 'registry', value: LOGIN });
    assert.equal((await read(id)).body.env.LATE, 'made later');
    await put('late', { kind: 'opaque', value: 'replaced' });
    assert.equal((await read(id)).body.env.LATE, 'replaced');
  });

  test('of another kind than the run needs are 404 with name and kind', async () => {
    assertError(
      await read(await held({ secrets: { PASSWORD: 'login' } })),
      404,
      "Secret 'login' of kind 'opaque' not found: it is of kind 'registry'",
    );
    assertError(
      await read(await held({ image_pull_secret: 'db' })),
      404,
      "Secret 'db' of kind 'registry' not found: it is of kind 'opaque'",
    );
  });

  test('are given to a key that is bound to the worker, and to no other bound key', async () => {
    const id = await held({ secrets: { PASSWORD: 'token' } }, 'one');
    const mine = await issueKey(service, ['worker'], { worker_ids: ['one'] });
    const other = await issueKey(service, ['worker'], { worker_ids: ['two'] });
    assert.deepEqual((await read(id, fence('one'), mine.key)).body.env, { PASSWORD: '' });
    assertError(await read(id, fence('one'), other.key), 403, "API key is not bound to worker 'one'");
    const notMine = `Run '${id}' is not assigned to worker 'two'`;
    assertError(await read(id, fence('two'), other.key), 409, notMine);
    for (const key of [KEYS.client, KEYS.metrics]) {
      assertError(await read(id, fence('one'), key), 403, "API key lacks scope 'worker'");
    }
  });

  const readsOf = async (id: string): Promise<Json[]> => {
    const { body } = await service.send('GET', '/audit?limit=500');
    return body.filter((entry: Json) => entry.run_id === id);
  };

  test('leave one entry for each attempt and key in the audit log, with the names of the secrets and no value', async () => {
    const used = { secrets: { B: 'token', A: 'db', C: 'db' }, image_pull_secret: 'login' };
    const id = await held(used, 'w/1');
    await Promise.all(Array.from({ length: 8 }, () => read(id, fence('w/1'))));
    assert.equal((await read(id, fence('w/1'))).status, 200);
    const entry = {
      key_name: settingsName('worker', KEYS.worker),
      action: 'secret.read',
      subject: id,
      run_id: id,
      before: {},
      after: {
        worker_id: 'w/1',
        attempt: 1,
        key_id: (await service.send('GET', '/whoami', { key: KEYS.worker })).body.id,
        secrets: ['db', 'login', 'token'],
      },
    };
    const shown = async (): Promise<object[]> =>
      (await readsOf(id)).map(({ id: _id, t: _t, ...others }: Json) => others);
    assert.deepEqual(await shown(), [entry]);
    const other = await issueKey(service, ['worker']);
    await read(id, fence('w/1'), other.key);
    const ofOther = { ...entry, key_name: other.name, after: { ...entry.after, key_id: other.id } };
    assert.deepEqual(await shown(), [ofOther, entry]);
    await steps.event(id, 'RETRIED', { force: true });
    await steps.claimUntil(id, 'w/1');
    await read(id, fence('w/1', 2));
    assert.deepEqual(await shown(), [{ ...entry, after: { ...entry.after, attempt: 2 } }, ofOther, entry]);
    assert.ok(!(await service.send('GET', '/audit?limit=500')).text.includes('hunter2'));
  });

  test('leave no entry where the run uses none, or no value is given', async () => {
    const none = await held({});
    assert.equal((await read(none)).status, 200);
    const missingOne = await held({ secrets: { PASSWORD: 'db', MISSING: 'nowhere' } });
    assert.equal((await read(missingOne)).status, 404);
    const held2 = await held({ secrets: { PASSWORD: 'db' } });
    assert.equal((await read(held2, fence('another'))).status, 409);
    for (const id of [none, missingOne, held2]) assert.deepEqual(await readsOf(id), []);
  });

  test('are not given while the audit log cannot be written', async () => {
    const id = await held({ secrets: { PASSWORD: 'db' } });
    const none = await held({});
    await execute(service.dataSource, 'alter table audit_entries rename to audit_entries_away');
    try {
      const refused = await read(id);
      assert.ok(refused.status >= 500, refused.text);
      assert.ok(!refused.text.includes('hunter2'));
      assert.equal((await read(none)).status, 200);
    } finally {
      await execute(service.dataSource, 'alter table audit_entries_away rename to audit_entries');
    }
    assert.equal((await read(id)).status, 200);
    assert.equal((await readsOf(id)).length, 1);
  });

  test('of a row that was copied to another name are 503, and say so in the log', async () => {
    await put('forged', { kind: 'opaque', value: 'mine' });
    await execute(
      service.dataSource,
      `update secrets set ciphertext = (select ciphertext from secrets where name = 'db') where name = 'forged'`,
    );
    const detail = "Secret 'forged' cannot be decrypted: its row was changed outside of the service";
    assertError(await read(await held({ secrets: { PASSWORD: 'forged' } })), 503, detail);
    assert.ok(service.logged.some(({ level, msg }) => level === 'error' && msg === detail));
  });

  test('are 503 where their key is not configured, and without any key; a run without secrets goes on', async () => {
    const id = await held({ secrets: { PASSWORD: 'db' } });
    const without = await held({});
    for (const [env, detail, errors] of [
      [
        { SERVICE_SECRETS_KEY: '' },
        'Secrets are not configured',
        ['the operator must set SERVICE_SECRETS_KEY'],
      ],
      [
        { SERVICE_SECRETS_KEY: newSecretsKey() },
        "Secret 'db' cannot be decrypted: its key is not in SERVICE_SECRETS_KEY",
        undefined,
      ],
    ] as const) {
      const second = await startTestApp({ env, database: service.database });
      try {
        const options = { key: KEYS.worker, headers: fence() };
        assertError(await second.send('GET', `/runs/${id}/secrets`, options), 503, detail, errors);
        const empty = await second.send('GET', `/runs/${without}/secrets`, options);
        assert.deepEqual(empty.body, { env: {}, files: {}, registry: null });
      } finally {
        await second.close();
      }
    }
    assert.equal((await read(id)).status, 200);
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
