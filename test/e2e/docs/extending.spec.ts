import 'reflect-metadata';
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import * as extension from '../../../src/extension.js';
import { rows } from '../../../src/database/sql/sql.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { blocksOf, proseOf, readPage } from '../../support/docs/doc-pages.js';
import { OutsidePackage } from '../../support/programs/outside-package.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import {
  PROJECT,
  runService,
  startService,
  until,
  type ServiceOptions,
  type ServiceProcess,
} from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const EXAMPLE = 'examples/extension';
const PAGE = 'docs/extending.md';
/** What the log says that the example brings. */
const LOADED = {
  file: 'dist/index.js',
  modules: ['BudgetsModule', 'FreezeModule', 'OutcomesModule', 'SlotsModule'],
  strategies: ['SlotsStrategy'],
};
/** The page's last command, without `npx longshore`. */
const SERVE = ['serve', '--extensions', 'dist/index.js'];

test('the code of docs/extending.md is that of the example', async () => {
  const sources = await readdir(join(PROJECT, EXAMPLE, 'src'), { recursive: true });
  const files = [
    ...sources.filter((name) => name.endsWith('.ts')).map((name) => join('src', name)),
    'tsconfig.json',
  ];
  const texts = await Promise.all(files.map((name) => readFile(join(PROJECT, EXAMPLE, name), 'utf8')));
  const blocks = blocksOf(await readPage(PAGE)).filter(
    ({ language, kind }) => language === 'ts' && kind !== 'sketch',
  );
  assert.ok(blocks.length >= 5);
  for (const { code, line } of blocks) {
    assert.ok(
      texts.some((text) => text.includes(code.trim())),
      `the block at line ${line}`,
    );
  }
});

test('docs/extending.md names everything that longshore/extension exports', async () => {
  const prose = proseOf(await readPage(PAGE));
  assert.deepEqual(
    Object.keys(extension).filter((name) => !prose.includes(`\`${name}\``)),
    [],
  );
});

const run = (send: Send, body: object = { image: 'image' }) => send('POST', '/runs', { body });

describe('the example of an extension, an outside package', () => {
  let outside: OutsidePackage;
  let database: TestDatabase;
  let service: ServiceProcess;
  let admin: Send;
  let vision: Send;
  let speech: Send;
  /** What the page shows. */
  let shown: { readonly refusal: unknown; readonly obstacle: unknown };

  beforeAll(async () => {
    const blocks = await DocBlocks.read(PAGE);
    const [refusal = '', obstacle = ''] = blocks.all('', 'json');
    shown = { refusal: JSON.parse(refusal), obstacle: JSON.parse(obstacle) };
    const [build, ...commands] = blocks.one('elsewhere').trimEnd().split('\n');
    const serve = commands.pop();
    // Tests run on a build. The command that starts the service is below, with settings.
    assert.deepEqual([build, serve], ['npm run build', `npx longshore ${SERVE.join(' ')}`]);
    outside = await OutsidePackage.follow(commands.join('\n'), 'team-extension');
    database = await openTestDatabase();
  });
  afterAll(async () => {
    await service?.kill('SIGTERM');
    await database.close();
    await outside.remove();
  });

  function options(env: Readonly<Record<string, string>> = {}): ServiceOptions {
    return {
      main: outside.installed('longshore', 'dist', 'src', 'main.js'),
      cwd: outside.folder,
      env: {
        DATABASE_URL: database.url,
        SERVICE_EXTENSIONS: 'dist/index.js',
        SERVICE_API_KEYS: 'admin:admin-of-the-extension-test',
        ...env,
      },
    };
  }

  async function makeKey(name: string): Promise<Send> {
    const { body } = await admin('POST', '/api-keys', { body: { name, scopes: ['client'] } });
    return senderTo(service.url, body.key);
  }

  const used = async () => (await vision('GET', '/team-budgets/mine')).body.used;

  test('starts with the service, in several processes: its migrations are run and recorded once', async () => {
    service = await startService(options({ SERVICE_SCHEDULER: 'slots', SERVICE_WORKERS: '2' }));
    const said = service.output.split('\n').filter((line) => line.includes('loaded extensions'));
    assert.deepEqual(
      said.map((line) => JSON.parse(line).extensions),
      [[LOADED]],
    );
    admin = senderTo(service.url, service.adminKey);
    vision = await makeKey('vision');
    speech = await makeKey('speech');
    const recorded = await rows<{ name: string }>(
      await database.open(1),
      `select name from longshore_migrations where name like 'Add%17951%' order by name`,
    );
    assert.deepEqual(
      recorded.map(({ name }) => name),
      ['AddRunOutcomes1795100000002', 'AddTeamBudgets1795100000001'],
    );
  });

  test('describes its routes in /docs-json, with their security', async () => {
    assert.equal((await admin('GET', '/ui/', { key: null })).status, 200, 'the package lacks the dashboard');
    const { body } = await admin('GET', '/docs-json', { key: null });
    const { put } = body.paths['/team-budgets/{team}'];
    assert.deepEqual(put.security, body.paths['/runs'].post.security);
    assert.deepEqual(
      Object.keys(put.responses).filter((status) => status.startsWith('4')),
      ['400', '401', '403', '408', '413', '415', '429'],
    );
    assert.equal(body.components.schemas.SetTeamBudgetDto.properties.runs_per_day.type, 'integer');
  });

  test('has its routes protected by scope and their bodies validated', async () => {
    const body = { runs_per_day: 3 };
    const path = '/team-budgets/vision';
    assert.equal((await admin('PUT', path, { body, key: null })).status, 401);
    const forbidden = await vision('PUT', path, { body });
    assert.deepEqual([forbidden.status, forbidden.body], [403, { detail: `API key lacks scope 'admin'` }]);
    const invalid = await admin('PUT', path, { body: { runs_per_day: -1, limit: 3 } });
    assert.equal(invalid.status, 400);
    assert.equal(invalid.body.detail, 'Request validation failed');
    assert.equal(invalid.body.errors.length, 2, invalid.text);
    const missing = await vision('GET', '/team-budgets/mine');
    assert.deepEqual([missing.status, missing.body], [404, { detail: `Team 'vision' has no budget` }]);
    const set = await admin('PUT', path, { body });
    assert.deepEqual([set.status, set.body], [200, { team: 'vision', runs_per_day: 3, used: 0 }]);
  });

  test('refuses runs beyond the budget of a team, and only those', async () => {
    const item = { image: 'image' };
    assert.equal((await run(vision)).status, 201);
    assert.equal((await run(vision, {})).status, 400);
    const replayed = { body: item, headers: { 'Idempotency-Key': 'once' } };
    for (const status of [201, 201]) assert.equal((await vision('POST', '/runs', replayed)).status, status);
    assert.equal(await used(), 2);

    const tooMany = await vision('POST', '/runs/batch', { body: { runs: [item, item] } });
    assert.deepEqual(
      [tooMany.status, tooMany.body],
      [429, { detail: `Team 'vision' has created 2 of 3 runs today` }],
    );
    assert.ok(Number(tooMany.headers.get('retry-after')) > 0);
    assert.equal((await run(vision)).status, 201);
    const fourth = await run(vision);
    assert.deepEqual([fourth.status, fourth.body], [429, shown.refusal]);
    await admin('PUT', '/team-budgets/vision', { body: { runs_per_day: 5 } });
    const mixed = await vision('POST', '/runs/batch', { body: { runs: [item, {}] } });
    assert.deepEqual(
      mixed.body.results.map(({ status }: { status: number }) => status),
      [201, 400],
    );
    assert.equal(await used(), 4);

    await admin('POST', '/definitions', { body: { id: 'template', version: '1', image: 'image' } });
    const fromDefinition = () => vision('POST', '/definitions/template/runs', { body: { inputs: {} } });
    assert.equal((await fromDefinition()).status, 201);
    assert.equal((await fromDefinition()).status, 429);
    assert.equal((await run(vision)).status, 429);
    assert.equal((await run(speech)).status, 201);
  });

  test('begins a new day by its scheduled job', async () => {
    await rows(await database.open(1), `update team_budgets set day = day - 1`);
    await until(async () => (await used()) === 0, 'the budget is reset');
  });

  test('hands out runs by its strategy, and counts how they end', async () => {
    const steps = new RunSteps(admin);
    await steps.heartbeat('tagged', { tags: ['slots:2'] });
    const claimed = await steps.claim('tagged');
    assert.equal(claimed.length, 2);
    assert.deepEqual(await steps.claim('tagged'), []);
    const { id } = (await run(admin)).body;
    const explanation = bodyOf(await steps.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    assert.equal(explanation.strategy, 'slots');
    assert.deepEqual(explanation.workers[0].obstacles, [shown.obstacle]);
    await steps.event(claimed[0].id, 'COMPLETED');
    await admin('POST', `/runs/${id}/cancel`);
    const expected = [
      { image: 'image', state: 'CANCELLED', runs: 1 },
      { image: 'image', state: 'COMPLETED', runs: 1 },
    ];
    const outcomes = async () => (await vision('GET', '/run-outcomes')).body;
    await until(async () => (await outcomes()).length === 2, 'the outcomes are counted');
    assert.deepEqual(await outcomes(), expected);
    assert.equal(await service.stop(), 0);

    // Nothing is counted again after a start; the guard is in the same package.
    service = await startService({
      ...options({ TEAM_FREEZE: 'true', SERVICE_EXTENSIONS: '' }),
      main: outside.installed('.bin', 'longshore'),
      args: SERVE,
    });
    vision = senderTo(service.url, await keyOf('vision'));
    assert.deepEqual(await outcomes(), expected);
  });

  /** A new client key, made while the service runs. */
  async function keyOf(name: string): Promise<string> {
    admin = senderTo(service.url, service.adminKey);
    return (await admin('POST', '/api-keys', { body: { name, scopes: ['client'] } })).body.key;
  }

  test('guards all routes: with a freeze, only admins change anything', async () => {
    const frozen = await run(vision);
    assert.deepEqual([frozen.status, frozen.body], [403, { detail: 'Changes are frozen' }]);
    assert.equal((await vision('GET', '/runs')).status, 200);
    assert.equal((await run(admin)).status, 201);
    // Authentication comes before it.
    assert.equal((await admin('POST', '/runs', { body: {}, key: null })).status, 401);
    assert.equal(await service.stop(), 0);
  });

  test('can be left out again: the service starts, and the tables stay as they are', async () => {
    service = await startService(options({ SERVICE_EXTENSIONS: '' }));
    admin = senderTo(service.url, service.adminKey);
    assert.equal((await admin('GET', '/team-budgets')).status, 404);
    assert.equal((await run(admin)).status, 201);
    const left = await rows(await database.open(1), 'select team, runs_per_day from team_budgets');
    assert.deepEqual(left, [{ team: 'vision', runs_per_day: 5 }]);
    assert.equal(await service.stop(), 0);
  });

  for (const [what, code, complaint] of [
    [
      'needs a provider that does not exist',
      `import { Module } from '@nestjs/common';
       class Needy {}
       Reflect.defineMetadata('design:paramtypes', [class Unknown {}], Needy);
       export class Added {}
       Module({ providers: [Needy] })(Added);`,
      /cannot be used: Nest can't resolve dependencies of the Needy/,
    ],
    [
      'uses an entity that no file exports',
      `import { Module } from '@nestjs/common';
       import { TypeOrmModule } from '@nestjs/typeorm';
       import { Entity } from 'typeorm';
       class Forgotten {}
       Entity('forgotten')(Forgotten);
       export class Added {}
       Module({ imports: [TypeOrmModule.forFeature([Forgotten])] })(Added);`,
      /cannot be used: TypeOrmModule.forFeature: .* without the entity Forgotten/,
    ],
  ] as const) {
    test(`ends the start with exit code 2 when it ${what}`, async () => {
      await writeFile(join(outside.folder, 'wrong.mjs'), code);
      const { code: exitCode, stderr } = await runService(options({ SERVICE_EXTENSIONS: 'wrong.mjs' }));
      assert.equal(exitCode, 2, stderr);
      assert.match(stderr, complaint);
      assert.ok(stderr.startsWith(`SERVICE_EXTENSIONS: 'wrong.mjs' `), stderr);
      assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
    });
  }
});
