import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { readApiDocument, type ApiDocument } from '../../support/fuzz/api-document.js';
import { INVALID_CALLS, playMainScenario, sendCall } from '../../support/openapi/main-scenario.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const run = promisify(execFile);

/** Folder of the tools that users of the API description have, with a package.json of its own. */
const OPENAPI_TOOLS = join(PROJECT, 'test', 'openapi-tools');
const OPENAPI_BIN = join(OPENAPI_TOOLS, 'node_modules', '.bin');
/** In the gate they have to be there. */
const skip =
  !existsSync(OPENAPI_BIN) &&
  process.env['CI'] !== 'true' &&
  'no tools for OpenAPI: npm ci --prefix test/openapi-tools';

/** A validator that is generated while the test runs. */
interface Validator {
  parse(value: unknown): unknown;
  safeParse(value: unknown): { readonly success: boolean };
}

describe('tools for OpenAPI, on the API description', { ...skipFor(skip), concurrent: true }, () => {
  let service: TestApp;
  let document: ApiDocument;
  let folder: string;

  beforeAll(async () => {
    service = await startTestApp();
    document = readApiDocument();
    // Beside the tools, so that the generated code finds its packages.
    await mkdir(join(OPENAPI_TOOLS, '.build'), { recursive: true });
    folder = await mkdtemp(join(OPENAPI_TOOLS, '.build', 'openapi-generators-'));
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
    await writeFile(join(folder, 'openapi.json'), JSON.stringify(document));
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
    await run(join(OPENAPI_BIN, 'tsc'), [...options.split(' '), join(folder, `${name}.ts`)]);
    return import(pathToFileURL(join(folder, `${name}.js`)).href);
  };

  test('Spectral finds no error and nothing to warn of', async () => {
    await writeFile(join(folder, 'ruleset.yaml'), 'extends: ["spectral:oas"]\n');
    const paths = [join(folder, 'openapi.json'), '--ruleset', join(folder, 'ruleset.yaml')];
    await run(join(OPENAPI_BIN, 'spectral'), ['lint', ...paths, '--fail-severity', 'warn']);
  });

  test('orval makes validators that accept the main scenario and refuse what the service refuses', async () => {
    const config = { input: './openapi.json', output: { client: 'zod', target: './orval.ts' } };
    await writeFile(join(folder, 'orval.config.json'), JSON.stringify({ longshore: config }));
    await run(join(OPENAPI_BIN, 'orval'), ['--config', join(folder, 'orval.config.json')], { cwd: folder });
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
      if (call.body !== undefined) check(`${operation}Body`, call.body);
      const { status, body, text } = await sendCall({ document, send: service.send }, operation, call);
      assert.ok(status < 300, `${operation}: ${status} ${text}`);
      // Of several answers, orval describes the first.
      if (operation !== 'createBulkOperation') check(`${operation}Response`, body);
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
});
