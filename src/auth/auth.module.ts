import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { PassportModule } from '@nestjs/passport';
import { Log } from '../logging/logger.js';
import { Settings, type ApiKeySetting } from '../settings/settings.js';
import { AccessCoverage } from './access-coverage.js';
import { ensureAdminKey } from './admin-key-file.js';
import { ApiKeyGuard } from './api-key.guard.js';
import { BearerStrategy, XApiKeyStrategy } from './api-key.strategies.js';
import { ApiKeysService, STARTING_KEYS } from './api-keys.service.js';

/** Who may call what. The application binds its guard before every other one. */
@Module({
  imports: [PassportModule, DiscoveryModule],
  providers: [
    { provide: STARTING_KEYS, inject: [Settings, Log], useFactory: startingKeys },
    ApiKeysService,
    XApiKeyStrategy,
    BearerStrategy,
    AccessCoverage,
    ApiKeyGuard,
  ],
  exports: [ApiKeyGuard],
})
export class AuthModule {}

/** The keys of the settings; without any, one admin key that is kept in the data folder. */
async function startingKeys(settings: Settings, log: Log): Promise<readonly ApiKeySetting[]> {
  if (settings.apiKeys.length > 0) return settings.apiKeys;
  const { key, path, created } = await ensureAdminKey(settings.dataDir);
  log.info(`${created ? 'made an admin API key, kept in' : 'the admin API key is in'} ${path}`);
  return [{ scope: 'admin', key }];
}
