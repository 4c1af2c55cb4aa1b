import assert from 'node:assert/strict';
import { afterAll, beforeAll } from 'vitest';
import { openTestDatabase, type TestDatabase, type TestDatabaseOptions } from '../test-database.js';
import { startTestApp, type TestApp, type TestAppOptions } from './test-app.js';

/**
 * The application of a `describe` block: it starts before the tests and is closed after them.
 * @param options a function is asked when the application starts
 */
export function useTestApp(options: TestAppOptions | (() => TestAppOptions) = {}): TestApp {
  let started: TestApp | undefined;
  beforeAll(async () => {
    started = await startTestApp(typeof options === 'function' ? options() : options);
  });
  afterAll(() => started?.close());
  const app = (): TestApp => started ?? assert.fail('the application starts before the tests');
  return {
    get url() {
      return app().url;
    },
    get app() {
      return app().app;
    },
    get database() {
      return app().database;
    },
    get dataSource() {
      return app().dataSource;
    },
    get logged() {
      return app().logged;
    },
    send: (method, path, request) => app().send(method, path, request),
    close: () => app().close(),
  };
}

/** The database of a `describe` block: it is there before the tests and dropped after them. */
export function useTestDatabase(options: TestDatabaseOptions = {}): TestDatabase {
  let opened: TestDatabase | undefined;
  beforeAll(async () => {
    opened = await openTestDatabase(options);
  });
  afterAll(() => opened?.close());
  const database = (): TestDatabase => opened ?? assert.fail('the database is opened before the tests');
  return {
    get url() {
      return database().url;
    },
    get dataSource() {
      return database().dataSource;
    },
    open: (poolSize) => database().open(poolSize),
    close: () => database().close(),
  };
}
