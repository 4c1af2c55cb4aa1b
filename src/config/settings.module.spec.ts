import 'reflect-metadata';
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { Inject, Injectable, Module } from '@nestjs/common';
import { ConfigModule, ConfigService, registerAs, type ConfigType } from '@nestjs/config';
import { Test, type TestingModule } from '@nestjs/testing';
import { SETTING_KEYS } from './settings.js';
import { settingsConfig, SettingsModule, type Configuration } from './settings.module.js';
import { Settings } from './settings.js';

const quotaConfig = registerAs('quota', () => ({ limit: Number(process.env['TEST_QUOTA_LIMIT'] ?? '7') }));

@Injectable()
class Consumer {
  constructor(
    readonly settings: Settings,
    readonly config: ConfigService,
    @Inject(settingsConfig.KEY) readonly namespace: ConfigType<typeof settingsConfig>,
    @Inject(quotaConfig.KEY) readonly quota: ConfigType<typeof quotaConfig>,
  ) {}
}

@Module({ imports: [ConfigModule.forFeature(quotaConfig)], providers: [Consumer] })
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a module by its class
class ConsumerModule {}

async function inject({ settingsModule }: Configuration): Promise<Consumer> {
  const module: TestingModule = await Test.createTestingModule({
    imports: [settingsModule, ConsumerModule],
  }).compile();
  return module.get(Consumer, { strict: false });
}

describe('SettingsModule', () => {
  it('injects the loaded instance by its class and by its namespace into modules that do not import it', async () => {
    const configuration = await SettingsModule.load(['--port', '1234'], {
      SERVICE_API_KEYS: 'admin:key-of-twenty-letters',
    });
    const consumer = await inject(configuration);
    assert.equal(consumer.settings, configuration.settings);
    assert.equal(consumer.namespace, configuration.settings);
    assert.ok(consumer.settings instanceof Settings);
    assert.equal(consumer.config.get('settings.port'), 1234);
    assert.equal(consumer.config.get('settings'), configuration.settings);
  });

  it('lets ConfigService know every setting by the name of its variable, converted and with its default', async () => {
    const configuration = await SettingsModule.load(['--port', '1234', '--reload'], {
      SERVICE_API_KEYS: 'admin:key-of-twenty-letters',
      SERVICE_WORKERS: '3',
      SERVICE_WORKER_TIMEOUT: '',
    });
    const { config, settings } = await inject(configuration);
    for (const { env, field } of SETTING_KEYS) {
      assert.deepEqual(config.get(env, 'fallback'), settings[field] ?? 'fallback', env);
    }
    assert.equal(config.get('SERVICE_PORT'), 1234);
    assert.equal(config.get('SERVICE_RELOAD'), true);
    assert.equal(config.get('SERVICE_WORKERS'), 3);
    assert.equal(config.get('SERVICE_WORKER_TIMEOUT'), 60);
    assert.deepEqual(config.getOrThrow('SERVICE_API_KEYS'), [
      { scope: 'admin', key: 'key-of-twenty-letters' },
    ]);
    assert.throws(() => config.getOrThrow('DATABASE_URL'), /does not exist/);
  });

  it('lets ConfigService and forFeature read the variables of an extension', async () => {
    const { config, quota } = await inject(await SettingsModule.load([], { MY_QUOTA: '5', MY_EMPTY: '' }));
    assert.equal(config.get('MY_QUOTA'), '5');
    assert.equal(config.get('MY_EMPTY', 'fallback'), 'fallback');
    assert.deepEqual(quota, { limit: 7 });
    assert.equal(config.get('quota.limit'), 7);
  });

  it('reads only the variables that it is given, and leaves the environment as it is', async () => {
    const before = { ...process.env };
    const { config } = await inject(await SettingsModule.load([], { MY_QUOTA: '5' }));
    assert.equal(config.get('PATH'), undefined);
    assert.deepEqual({ ...process.env }, before);
  });

  it('prefers a flag to a variable of the environment, and that to one of .env', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'longshore-settings-'));
    const cwd = process.cwd();
    const saved = { ...process.env };
    await writeFile(
      join(folder, '.env'),
      '\ufeffSERVICE_PORT=1\nSERVICE_WORKERS=1\nSERVICE_MAX_RECLAIMS=1\nTEST_QUOTA_LIMIT=9\nSERVICE_DATA_DIR=a"#b\n',
    );
    process.chdir(folder);
    Object.assign(process.env, { SERVICE_PORT: '2', SERVICE_WORKERS: '2' });
    try {
      const { config, settings, quota } = await inject(await SettingsModule.load(['--port', '3']));
      assert.deepEqual([settings.port, settings.workers, settings.maxReclaims], [3, 2, 1]);
      assert.equal(config.get('SERVICE_MAX_RECLAIMS'), 1);
      assert.equal(config.get('TEST_QUOTA_LIMIT'), '9');
      assert.equal(settings.dataDir, 'a"#b');
      assert.deepEqual(quota, { limit: 9 });
      assert.equal(process.env['SERVICE_MAX_RECLAIMS'], '1');
    } finally {
      process.chdir(cwd);
      for (const name of Object.keys(process.env)) if (!(name in saved)) delete process.env[name];
      Object.assign(process.env, saved);
      await rm(folder, { recursive: true });
    }
  });
});
