import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Injectable, Module } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { Test } from '@nestjs/testing';
import { loadSettings } from './load-settings.js';
import { SettingsModule } from './settings.module.js';
import { Settings } from './settings.js';

@Injectable()
class Consumer {
  constructor(
    readonly settings: Settings,
    readonly config: ConfigService,
  ) {}
}

@Module({ providers: [Consumer] })
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a module by its class
class ConsumerModule {}

describe('SettingsModule', () => {
  it('injects the loaded instance itself into modules that do not import it', async () => {
    const settings = loadSettings(['--port', '1234'], { SERVICE_API_KEYS: 'admin:k' });
    const module = await Test.createTestingModule({
      imports: [SettingsModule.register(settings), ConsumerModule],
    }).compile();
    const consumer = module.get(Consumer, { strict: false });
    assert.equal(consumer.settings, settings);
    assert.ok(consumer.settings instanceof Settings);
    assert.equal(consumer.config.get('settings.port'), 1234);
    await module.close();
  });

  it('does not let ConfigService read the environment past the settings', async () => {
    const module = await Test.createTestingModule({
      imports: [SettingsModule.register(loadSettings([], {}))],
    }).compile();
    assert.equal(module.get(ConfigService).get('PATH'), undefined);
    await module.close();
  });
});
