import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { SecretEntity } from '../database/entities/security.entity.js';
import { RunSecretsController, SecretsController } from './secrets.controller.js';
import { RunSecretsService } from './run-secrets.service.js';
import { SecretCipher } from './secret-cipher.js';
import { SecretRepository } from './secret.repository.js';
import { SecretsService } from './secrets.service.js';

/** Secrets of runs: stored encrypted, and given to the worker that holds a run that uses them. */
@Module({
  imports: [TypeOrmModule.forFeature([SecretEntity])],
  controllers: [SecretsController, RunSecretsController],
  providers: [SecretCipher, SecretRepository, SecretsService, RunSecretsService],
  exports: [SecretCipher],
})
export class SecretsModule {}
