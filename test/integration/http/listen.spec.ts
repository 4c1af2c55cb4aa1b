import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Module, type OnApplicationBootstrap } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { listen } from '../../../src/bootstrap/serve.js';
import { CleanupStack } from '../../../src/bootstrap/cleanup-stack.js';

@Module({})
class FailingModule implements OnApplicationBootstrap {
  onApplicationBootstrap(): void {
    throw new Error('Connection terminated unexpectedly');
  }
}

describe('a start that fails while the application begins', () => {
  it('says why, and does not blame the address', async () => {
    const app = await NestFactory.create<NestExpressApplication>(FailingModule, { logger: false });
    try {
      const listening = listen(app, { host: '127.0.0.1', port: 0 }, new CleanupStack());
      await assert.rejects(listening, { name: 'Error', message: 'Connection terminated unexpectedly' });
    } finally {
      await app.close();
    }
  });
});
