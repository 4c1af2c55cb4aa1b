import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { ApiDocument } from '../../support/fuzz/api-document.js';
import {
  findOperation,
  INVALID_CALLS,
  playMainScenario,
  sendCall,
  type Call,
} from '../../support/openapi/main-scenario.js';
import { PROJECT } from '../../support/service-process.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';

const run = promisify(execFile);
const BIN = join(PROJECT, 'node_modules', '.bin');
const SOME_RUN = { id: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b' };

/** A validator that is generated while the test runs. */
interface Validator {
  parse(value: unknown): unknown;
  safeParse(value: unknown): { readonly success: boolean };
}

describe('tools for OpenAPI, on the API description', { concurrent: true }, () => {
  let service: TestApp;
  let document: ApiDocument;
  let folder: string;

  beforeAll(async () => {
    service = await startTestApp();
    const description = await service.send('GET', '/docs-json', { key: null });
    document = description.body;
    // Inside the project, so that the generated code finds its packages.
    await mkdir(join(PROJECT, '.build'), { recursive: true });
    folder = await mkdtemp(join(PROJECT, '.build', 'openapi-generators-'));
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await writeFile(join(folder, 'openapi.json'), description.text);
  });
  afterAll(async () => {
    await service.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Type checks and compiles a generated file, and gives its exports. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the code is generated while the test runs
  const load = async (name: string): Promise<Readonly<Record<string, any>>> => {
    const options =
      '--ignoreConfig --module nodenext --target es2023 --lib es2023,dom --strict --skipLibCheck --types node';
    await run(join(BIN, 'tsc'), [...options.split(' '), join(folder, `${name}.ts`)]);
    return import(pathToFileURL(join(folder, `${name}.js`)).href);
  };

  test('Spectral finds no error and nothing to warn of', async () => {
    await writeFile(join(folder, 'ruleset.yaml'), 'extends: ["spectral:oas"]\n');
    const paths = [join(folder, 'openapi.json'), '--ruleset', join(folder, 'ruleset.yaml')];
    await run(join(BIN, 'spectral'), ['lint', ...paths, '--fail-severity', 'warn']);
  });

  test('orval makes validators that accept the main scenario and refuse what the service refuses', async () => {
    const config = { input: './openapi.json', output: { client: 'zod', target: './orval.ts' } };
    await writeFile(join(folder, 'orval.config.json'), JSON.stringify({ longshore: config }));
    await run(join(BIN, 'orval'), ['--config', join(folder, 'orval.config.json')], { cwd: folder });
    const generated = await load('orval');
    const validator = (name: string): Validator | undefined => generated[name];
    const used = new Set<string>();
    const check = (name: string, value: unknown): void => {
      const found = validator(name);
      if (found === undefined) return;
      used.add(name);
      found.parse(value);
    };
    await playMainScenario('orval', async (operation, call = {}) => {
      check(`${operation}Params`, call.path ?? {});
      check(`${operation}QueryParams`, call.query ?? {});
      check(`${operation}Body`, call.body);
      const { status, body, text } = await sendCall({ document, send: service.send }, operation, call);
      assert.ok(status < 300, `${operation}: ${status} ${text}`);
      check(`${operation}Response`, body);
      return body;
    });
    for (const name of ['createRunBody', 'addEventBody', 'addEventResponse', 'readFeedResponse']) {
      assert.ok(used.has(name), `${name} was generated and used`);
    }
    for (const [operation, call] of INVALID_CALLS) {
      const found = validator(`${operation}Body`);
      assert.equal(found?.safeParse(call.body).success, false, JSON.stringify(call.body));
    }
  });

  test('openapi-zod-client makes a client that validates and goes through the main scenario', async () => {
    const paths = [join(folder, 'openapi.json'), '--output', join(folder, 'zodios.ts')];
    await run(join(BIN, 'openapi-zod-client'), [...paths, '--export-schemas']);
    const { createApiClient } = await load('zodios');
    const client = createApiClient(service.url, {
      axiosConfig: { headers: { Authorization: `Bearer ${KEYS.admin}` } },
    });
    const call = (operation: string, { path, query, body, headers }: Call = {}): Promise<unknown> => {
      const options = { params: path, queries: query, headers };
      const isGet = findOperation(document, operation).method === 'GET';
      return isGet ? client[operation](options) : client[operation](body, options);
    };
    await playMainScenario('zodios', call);
    for (const [operation, invalid] of INVALID_CALLS) {
      await assert.rejects(
        call(operation, { path: SOME_RUN, ...invalid }),
        /Zodios: Invalid Body parameter/,
        `${operation} ${JSON.stringify(invalid.body)}`,
      );
    }
  });
});
