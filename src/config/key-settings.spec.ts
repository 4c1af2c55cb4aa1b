import 'reflect-metadata';
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { loadSettings } from './settings.module.js';

const KEY = 'hunter2-of-twenty-letters';

describe('SERVICE_API_KEYS', () => {
  it('bind a worker key to ids and to beginnings of ids', () => {
    const { apiKeys } = loadSettings([], { SERVICE_API_KEYS: `worker@w-1+gpu/*:${KEY},metrics:${KEY}-2` });
    assert.deepEqual(apiKeys, [
      { scope: 'worker', key: KEY, workerIds: ['w-1', 'gpu/*'] },
      { scope: 'metrics', key: `${KEY}-2` },
    ]);
  });

  for (const [bindings, binding] of [
    ['w-1+tag:prod-vault', { workerIds: ['w-1'], workerTags: ['prod-vault'] }],
    ['tag:a+gpu-*+tag:b c=@', { workerIds: ['gpu-*'], workerTags: ['a', 'b c=@'] }],
    ['tag:prod-vault', { workerTags: ['prod-vault'] }],
    ['w-1+capability:env+capability:secrets', { workerIds: ['w-1'], workerCapabilities: ['env', 'secrets'] }],
    [
      'w-1+capability:network:none+capability:network:db+capability:env',
      { workerIds: ['w-1'], workerCapabilities: ['network:none', 'network:db', 'env'] },
    ],
    ['tag:+capability:', { workerTags: [], workerCapabilities: [] }],
    ['tags+capability-1', { workerIds: ['tags', 'capability-1'] }],
  ] as const) {
    it(`bind a worker key to tags and capabilities, with or without ids: worker@${bindings}`, () => {
      const text = `worker@${bindings}:pool=${KEY},client:${KEY}-2`;
      assert.deepEqual(loadSettings([], { SERVICE_API_KEYS: text }).apiKeys, [
        { scope: 'worker', key: KEY, name: 'pool', ...binding },
        { scope: 'client', key: `${KEY}-2` },
      ]);
    });
  }

  it('may hold colons and @ in the key, which bind nothing', () => {
    const key = `${KEY}:tag:x@y+tag:z`;
    assert.deepEqual(loadSettings([], { SERVICE_API_KEYS: `client:${key},worker@w:${key}-2` }).apiKeys, [
      { scope: 'client', key },
      { scope: 'worker', key: `${key}-2`, workerIds: ['w'] },
    ]);
  });

  it('may have a name; = at the end of a key is a part of it', () => {
    const text = `worker@w:gpu-pool=${KEY},client:nightly=${KEY}-2==,admin:${KEY}-2==,metrics:${KEY}=`;
    assert.deepEqual(loadSettings([], { SERVICE_API_KEYS: text }).apiKeys, [
      { scope: 'worker', key: KEY, name: 'gpu-pool', workerIds: ['w'] },
      { scope: 'client', key: `${KEY}-2==`, name: 'nightly' },
      { scope: 'admin', key: `${KEY}-2==` },
      { scope: 'metrics', key: `${KEY}=` },
    ]);
  });

  it('may have 20 characters', () => {
    assert.equal(loadSettings([], { SERVICE_API_KEYS: `admin:${'k'.repeat(20)}` }).apiKeys.length, 1);
  });

  for (const [value, fault] of [
    ['hunter2', 'entry 1 does not start with admin:, client:, worker:, worker@bindings: or metrics:'],
    [`${KEY}:admin`, 'entry 1 does not start with'],
    [`root:${KEY}`, 'entry 1 does not start with'],
    [`client:${KEY},ADMIN:${KEY}`, 'entry 2 does not start with'],
    ['admin:', 'the key of entry 1 is empty'],
    [`admin:${KEY},`, 'entry 2 does not start with'],
    [
      'admin:hun ter2-of-twenty-letters',
      'the key of entry 1 is empty or holds a character that is not visible ASCII',
    ],
    ['admin:hunter2-of-19-chars', 'the key of entry 1 has fewer than 20 characters'],
    [`client:${KEY},admin:a`, 'the key of entry 2 has fewer than 20 characters'],
    ['admin:gpu-pool-of-the-north=hunter2', 'the key of entry 1 has fewer than 20 characters'],
    [`admin:=${KEY}`, 'the name of entry 1 is not'],
    [`admin:a b=${KEY}`, 'the name of entry 1 is not'],
    [`admin:a=${KEY},client:a=${KEY}-2`, 'entry 1 has the name of another key'],
    [`admin:a=${KEY},client:b=${KEY}`, 'entry 1 has the name of another key, or its key has another name'],
    [`client@w:${KEY}`, 'entry 1 binds a key to workers that has not the scope worker'],
    [`worker@:${KEY}`, 'entry 1 binds a key to something else than worker ids'],
    [`worker@*:${KEY}`, 'entry 1 binds a key to something else than worker ids'],
    [`worker@a*b:${KEY}`, 'entry 1 binds a key to something else than worker ids'],
    [`worker@a@b:${KEY}`, 'entry 1 binds a key to something else than worker ids'],
    [`worker@tag:${KEY}`, 'the key of entry 1 is empty'],
    [`worker@w-1+tag:${KEY}`, 'the key of entry 1 is empty'],
    [`worker@w-1+capability:${KEY}`, 'the key of entry 1 is empty'],
    [`worker@w-1++tag:a:${KEY}`, 'entry 1 binds a key to something else than worker ids'],
    [`admin@tag:a:${KEY}`, 'entry 1 binds a key to workers that has not the scope worker'],
    [`worker@tag:${'hunter2'.repeat(19)}:${KEY}`, 'entry 1 binds a key to a tag or capability of more than'],
    [`worker@tag:a:${KEY},worker:${KEY}`, 'the key of entry 1 is bound to workers and listed twice'],
    [`worker@a:${KEY},worker:${KEY}`, 'the key of entry 1 is bound to workers and listed twice'],
  ] as const) {
    it(`refuse ${JSON.stringify(value)} without showing it`, () => {
      assert.throws(
        () => loadSettings([], { SERVICE_API_KEYS: value }),
        (error) => {
          assert.ok(error instanceof SettingsError);
          const [problem = '', ...others] = error.problems;
          assert.ok(problem.startsWith('SERVICE_API_KEYS must be ') && problem.includes(fault), problem);
          assert.doesNotMatch(problem, /hunter2|ter2|root|ADMIN/);
          return others.length === 0;
        },
      );
    });
  }
});

const FIRST = Buffer.alloc(32, 'first').toString('base64');
const OTHER = Buffer.alloc(32, 'other').toString('base64');

describe('SERVICE_SECRETS_KEY', () => {
  it('is a list of keys of 32 bytes in Base64', () => {
    const { secretsKeys } = loadSettings([], { SERVICE_SECRETS_KEY: `${FIRST} , ${OTHER}` });
    assert.deepEqual(
      secretsKeys.map((key) => key.export().toString('base64')),
      [FIRST, OTHER],
    );
  });

  it('is not in any text that the settings are made into', () => {
    const settings = loadSettings([], { SERVICE_SECRETS_KEY: FIRST });
    const text = [JSON.stringify(settings), inspect(settings, { depth: 9, showHidden: true })].join('\n');
    for (const form of [FIRST, 'firstfirst', Buffer.from('first').toString('hex')]) {
      assert.ok(!text.includes(form), form);
    }
  });

  for (const [value, entry] of [
    ['hunter2', 1],
    [`${FIRST},hunter2`, 2],
    [`${FIRST},`, 2],
    [FIRST.slice(0, -1), 1],
    [Buffer.alloc(31, 'hunter2').toString('base64'), 1],
    [Buffer.alloc(33, 'hunter2').toString('base64'), 1],
    [Buffer.alloc(32, 'hunter2').toString('hex'), 1],
    [`${FIRST.slice(0, -2)}h=`, 1],
  ] as const) {
    it(`with a wrong key at entry ${entry} (${value.length} characters) is refused without being shown`, () => {
      assert.throws(
        () => loadSettings([], { SERVICE_SECRETS_KEY: value }),
        (error) => {
          assert.ok(error instanceof SettingsError);
          assert.deepEqual(error.problems, [
            'SERVICE_SECRETS_KEY must be a comma-separated list of keys, each 32 bytes in Base64: ' +
              `entry ${entry} is not 32 bytes in Base64 (the value is not shown)`,
          ]);
          return true;
        },
      );
    });
  }
});
