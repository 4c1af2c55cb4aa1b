import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { getOptionsToken, ThrottlerStorage } from '@nestjs/throttler';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ApiKeyEntity } from '../database/entities/security.entity.js';
import { Clock } from '../common/clock.js';
import { Log } from '../common/logging/logger.js';
import { Settings } from '../config/settings.js';
import { AccessCoverage } from './access.js';
import { ApiKeyGuard, AUTHENTICATOR, createAuthenticator } from './api-key.guard.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { ApiKeysController, WhoamiController } from './api-keys.controller.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { ApiKeysService } from './api-keys.service.js';
import { FailedAuthentications } from './failed-authentications.js';
import { KeyUsage } from './key-usage.js';
import { RevokedKeyResponses } from './revoked-key-responses.js';
import { rateLimitOptions, RateLimitGuard, RateLimitStorage } from './rate-limit.guard.js';
import { STARTUP_KEYS, startupKeys } from './startup-keys.js';
import { ApiKeyCache } from './api-key-cache.js';

/** Authentication, authorisation and rate limit. The application registers the exported guards globally, in this order. */
@Module({
  imports: [DiscoveryModule, TypeOrmModule.forFeature([ApiKeyEntity])],
  controllers: [ApiKeysController, WhoamiController],
  providers: [
    Clock,
    ApiKeysRepository,
    { provide: STARTUP_KEYS, inject: [Settings, ApiKeysRepository, Log], useFactory: startupKeys },
    ApiKeyCache,
    RevokedKeyResponses,
    KeyUsage,
    FailedAuthentications,
    ApiKeyVerifier,
    ApiKeysService,
    AccessCoverage,
    { provide: AUTHENTICATOR, inject: [ApiKeyVerifier], useFactory: createAuthenticator },
    ApiKeyGuard,
    { provide: getOptionsToken(), inject: [Settings], useFactory: rateLimitOptions },
    { provide: ThrottlerStorage, useClass: RateLimitStorage },
    RateLimitGuard,
  ],
  exports: [ApiKeyGuard, RateLimitGuard],
})
export class AuthModule {}
