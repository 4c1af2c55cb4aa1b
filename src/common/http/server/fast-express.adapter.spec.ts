import 'reflect-metadata';
import assert from 'node:assert/strict';
import { test } from 'vitest';
import { ConsoleLogger, Logger } from '@nestjs/common';
import type { Request, Response } from 'express';
import { loadSettings } from '../../../config/settings.module.js';
import { FastExpressAdapter } from './fast-express.adapter.js';

test("responses follow Express's JSON settings", async () => {
  const adapter = new FastExpressAdapter(loadSettings([], {}));
  adapter.set('json spaces', 2);
  adapter.initHttpServer({});
  adapter.get('/team', (_: Request, response: Response) => adapter.reply(response, { a: 1 }));
  await new Promise<void>((resolve) => void adapter.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = Object(adapter.getHttpServer().address());
    const response = await fetch(`http://127.0.0.1:${port}/team`);
    assert.equal(await response.text(), '{\n  "a": 1\n}');
  } finally {
    await adapter.close();
  }
});

test('an error that no handler answers is a 500 in JSON, without its text', async () => {
  const adapter = new FastExpressAdapter(loadSettings([], {}));
  adapter.initHttpServer({});
  adapter.get('/team', () => {
    throw new Error('secret');
  });
  await new Promise<void>((resolve) => void adapter.listen(0, '127.0.0.1', resolve));
  Logger.overrideLogger(false);
  try {
    const { port } = Object(adapter.getHttpServer().address());
    const response = await fetch(`http://127.0.0.1:${port}/team`);
    assert.equal(response.status, 500);
    assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(await response.text(), '{"detail":"Internal server error"}');
  } finally {
    Logger.overrideLogger(new ConsoleLogger());
    await adapter.close();
  }
});
