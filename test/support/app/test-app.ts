import 'reflect-metadata';
import { hash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Type } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { DataSource } from 'typeorm';
import { createApp } from '../../../src/bootstrap/create-app.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { createLog, type LogTarget } from '../../../src/common/logging/logger.js';
import { SettingsModule } from '../../../src/config/settings.module.js';
import type { Tracing } from '@longshore/common/tracing/tracing';
import { openTestDatabase, type TestDatabase } from '../test-database.js';

/** Keys that every test application knows, one per scope. */
export const KEYS = {
  admin: 'test-admin-key-of-the-tests',
  client: 'test-client-key-of-the-tests',
  worker: 'test-worker-key-of-the-tests',
  metrics: 'test-metrics-key-of-the-tests',
} as const;

/** The name of a key of the settings that has none of its own. */
export function settingsName(scopes: string, key: string): string {
  return `settings:${scopes}:${hash('sha256', key).slice(0, 8)}`;
}

/** A new key for SERVICE_SECRETS_KEY. */
export function newSecretsKey(): string {
  return randomBytes(32).toString('base64');
}

/** One request to the application. */
export interface TestRequest {
  /** Sent as JSON unless it is a string or a Buffer, which are sent as they are. */
  readonly body?: unknown;
  /** The API key; admin unless given, null for none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What came back. */
export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The JSON body, read leniently; undefined when there is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
  readonly body: any;
  readonly text: string;
}

/** Sends requests to a running service. */
export type Send = (method: string, path: string, request?: TestRequest) => Promise<TestAnswer>;

/** An application on a database of its own, listening on a free port. */
export interface TestApp {
  readonly url: string;
  readonly app: NestExpressApplication;
  readonly database: TestDatabase;
  readonly dataSource: DataSource;
  readonly send: Send;
  /** Log lines written so far, parsed. */
  readonly logged: readonly Record<string, unknown>[];
  /** Closes the application, and the database unless it was given. */
  close(): Promise<void>;
}

/** What a test application differs in. */
export interface TestAppOptions {
  /** Environment variables on top of the keys. */
  readonly env?: Readonly<Record<string, string>>;
  /** A database that another application uses too, as two server processes do. */
  readonly database?: TestDatabase;
  /** Closed with the application. */
  readonly tracing?: Tracing | null;
  /** Modules that are imported beside the service's own. */
  readonly extensions?: readonly Type[];
  /** Configures the application before it listens. */
  readonly configure?: (app: NestExpressApplication) => void;
}

/** Starts an application; every part is real. */
export async function startTestApp(options: TestAppOptions = {}): Promise<TestApp> {
  const files = await mkdtemp(join(tmpdir(), 'longshore-files-'));
  const configuration = await SettingsModule.load(['--port', '0'], {
    SERVICE_API_KEYS: Object.entries(KEYS)
      .map(([scope, key]) => `${scope}:${key}`)
      .join(','),
    SERVICE_LOG_LEVEL: 'debug',
    // On a busy machine a worker of a test may be silent for longer than the default.
    SERVICE_WORKER_TIMEOUT: '600',
    // Tests of refused keys send many wrong ones.
    SERVICE_AUTH_FAILURE_LIMIT: '0',
    SERVICE_SECRETS_KEY: newSecretsKey(),
    SERVICE_FILES_URL: `file:${files}`,
    ...options.env,
  });
  const logged: Record<string, unknown>[] = [];
  const target: LogTarget = {
    destination: { write: (line: string) => void logged.push(JSON.parse(line)) },
    pretty: false,
  };
  const database = options.database ?? (await openTestDatabase({ entities: ENTITIES }));
  const dataSource = await database.open(configuration.settings.dbPoolSize - 1);
  const app = await createApp(
    {
      ...configuration,
      log: createLog(configuration.settings, target),
      dataSource,
      tracing: options.tracing ?? null,
    },
    options.extensions,
  );
  options.configure?.(app);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return {
    url,
    app,
    database,
    dataSource,
    logged,
    send: senderTo(url),
    close: async () => {
      await app.close();
      await options.tracing?.close();
      if (!options.database) await database.close();
      await rm(files, { recursive: true, force: true });
    },
  };
}

/** Sends requests to the service at a base URL. */
export function senderTo(baseUrl: string, defaultKey: string = KEYS.admin): Send {
  return async (method, path, { body, key = defaultKey, headers = {} } = {}) => {
    const raw = typeof body === 'string' || Buffer.isBuffer(body);
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(key === null ? {} : { 'X-API-Key': key }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: parsed(text) };
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
