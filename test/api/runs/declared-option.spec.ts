import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { Command } from 'commander';
import type { RunSteps } from '../../support/runs/run-steps.js';
import type { TestApp } from '../../support/app/test-app.js';

const DECLARATIONS = '../../../src/runs/options/option-declarations.js';
const DESCRIBED = '@longshore/client/constants';
const DOCUMENT = '../../support/fuzz/api-document.js';

/** The schemas of requests, of answers, and of the answer of a claim. */
const SCHEMAS = {
  request: ['OpRunCreate', 'DefinitionRunCreate', 'OpDefinitionCreate'],
  answer: ['OpRun', 'OpDefinition'],
  claim: ['WorkerOpRun'],
} as const;

interface DescribeOptions {
  readonly describeOptions: (document: object, declarations: object) => readonly { readonly kind?: string }[];
}

/** Loads a module after the declaration of the option. */
const load = <T>(path: string): Promise<T> => import(path);

describe('an option that is declared once', () => {
  let service: TestApp;
  let steps: RunSteps;

  beforeAll(async () => {
    vi.resetModules();
    vi.doMock(DECLARATIONS, async (importOriginal) => {
      const { integerOption, textOption } = await load<
        typeof import('../../../src/runs/options/option-kinds.js')
      >('../../../src/runs/options/option-kinds.js');
      const colour = textOption(
        { min: 1, max: 5 },
        {
          texts: { request: 'In requests.', answer: 'In answers; null: none.', claim: 'For the worker.' },
          example: 'green',
          capabilities: ['paint'],
        },
      );
      const memo = textOption(
        { max: 5 },
        { texts: { request: 'In requests.', answer: 'In answers.' }, example: 'a' },
      );
      const depth = integerOption({ min: 1, max: 9 }, null, {
        texts: { request: 'In requests.', answer: 'In answers; null: none.', claim: 'For the worker.' },
        example: 3,
        capabilities: ['paint'],
      });
      const declared =
        await importOriginal<typeof import('../../../src/runs/options/option-declarations.js')>();
      return { ...declared, OPTION_DECLARATIONS: { ...declared.OPTION_DECLARATIONS, colour, memo, depth } };
    });
    const app = await import('../../support/app/test-app.js');
    service = await app.startTestApp();
    const { OPTION_DECLARATIONS } = await import('../../../src/runs/options/option-declarations.js');
    const { body: document } = await service.send('GET', '/docs-json');
    // The steps check answers by the description of the build, which does not have the options.
    vi.doMock(DOCUMENT, async (importOriginal) => {
      const original = await importOriginal<typeof import('../../support/fuzz/api-document.js')>();
      const built = original.readApiDocument();
      for (const name of [...SCHEMAS.answer, ...SCHEMAS.claim]) {
        const { colour, memo, depth } = document.components.schemas[name].properties;
        Object.assign(built.components.schemas[name]?.properties ?? {}, {
          colour,
          depth,
          ...(memo && { memo }),
        });
      }
      return { ...original, readApiDocument: () => built };
    });
    const { RunSteps: Steps } = await import('../../support/runs/run-steps.js');
    steps = new Steps(service.send);
    const { describeOptions } = await load<DescribeOptions>('../../../scripts/describe-constants.mjs');
    vi.doMock(DESCRIBED, async (importOriginal) => ({
      ...(await importOriginal<typeof import('@longshore/client/constants')>()),
      RUN_OPTIONS: describeOptions(document, OPTION_DECLARATIONS).filter(({ kind }) => kind !== undefined),
    }));
  });

  afterAll(async () => {
    vi.doUnmock(DECLARATIONS);
    vi.doUnmock(DESCRIBED);
    vi.doUnmock(DOCUMENT);
    vi.resetModules();
    await service.close();
  });

  const define = (id: string, body: object): ReturnType<TestApp['send']> =>
    service.send('POST', '/definitions', { body: { id, version: '1', image: 'i', ...body } });

  const repeat = (colour: string): ReturnType<TestApp['send']> =>
    service.send('POST', '/runs', { body: { image: 'i', colour }, headers: { 'Idempotency-Key': 'again' } });

  test('is checked in every request, and shown in every answer', async () => {
    assert.equal((await define('plain', {})).body.colour, null);
    for (const path of ['/runs', '/definitions', '/definitions/plain/runs']) {
      const others =
        path === '/runs'
          ? { image: 'i' }
          : path === '/definitions'
            ? { id: 'd', version: '1', image: 'i' }
            : {};
      const refused = await service.send('POST', path, { body: { ...others, colour: 'purple' } });
      assert.equal(refused.status, 400, path);
      assert.deepEqual(refused.body.errors, ['colour must be a string of 1 to 5 characters'], path);
      const taken = await service.send('POST', path, { body: { ...others, colour: 'red' } });
      assert.equal(taken.body.colour, 'red', path);
      const without = await service.send('POST', path, { body: { ...others, colour: null } });
      assert.equal(without.body.colour, null, path);
    }
    const batch = await service.send('POST', '/runs/batch', {
      body: { runs: [{ image: 'i', colour: 'blue' }] },
    });
    const { id } = batch.body.results[0].run;
    assert.equal((await steps.get(id)).colour, 'blue');
    assert.equal((await service.send('GET', '/runs?limit=1')).body.data[0].colour, 'blue');
  });

  test('of a definition holds for its runs unless they give their own', async () => {
    assert.equal((await define('red', { colour: 'red' })).body.colour, 'red');
    assert.equal((await service.send('POST', '/definitions/red/runs', { body: {} })).body.colour, 'red');
    const own = await service.send('POST', '/definitions/red/runs', { body: { colour: 'blue' } });
    assert.equal(own.body.colour, 'blue');
  });

  test('is compared when a request is repeated', async () => {
    const first = await repeat('red');
    assert.equal((await repeat('red')).body.id, first.body.id);
    assert.equal((await repeat('blue')).status, 409);
  });

  test('is for workers with its capability alone, and explain names it', async () => {
    await steps.emptyQueue('plain');
    const { id } = await steps.create({ colour: 'red' });
    await steps.heartbeat('plain');
    assert.deepEqual(await steps.claim('plain'), []);
    const { body: explained } = await service.send('GET', `/runs/${id}/explain`);
    assert.match(explained.summary, /no active worker announces the capability paint/);
    await steps.heartbeat('painter', { capabilities: ['paint'] });
    const claimed = new Map<string, string>();
    for (;;) {
      const ops = await steps.claim('painter');
      if (ops.length === 0) break;
      for (const op of ops) claimed.set(op.id, op.colour);
    }
    assert.equal(claimed.get(id), 'red');
  });

  test('is for every worker without a capability, and not in the answer of a claim without a text for it', async () => {
    await steps.emptyQueue('any');
    const { id, memo } = await steps.create({ memo: 'note' });
    assert.equal(memo, 'note');
    const op = (await steps.claim('any')).find((one) => one.id === id) ?? assert.fail('it is claimed');
    assert.ok(!('memo' in op));
    const { schemas } = (await service.send('GET', '/docs-json')).body.components;
    assert.ok('memo' in schemas.OpRun.properties && !('memo' in schemas.WorkerOpRun.properties));
  });

  test('is in the OpenAPI document with the text of each place', async () => {
    const { schemas } = (await service.send('GET', '/docs-json')).body.components;
    for (const [place, names] of Object.entries(SCHEMAS)) {
      const text = { request: 'In requests.', answer: 'In answers; null: none.', claim: 'For the worker.' }[
        place
      ];
      for (const name of names) assert.equal(schemas[name].properties.colour.description, text, name);
    }
    assert.ok(schemas.OpRun.required.includes('colour'));
    assert.deepEqual(schemas.OpRun.properties.colour.type, ['string', 'null']);
    assert.deepEqual(schemas.OpRunCreate.properties.colour.type, ['string', 'null']);
    assert.equal(schemas.OpRunCreate.properties.colour.maxLength, 5);
    assert.ok(!schemas.WorkerOpRun.required.includes('colour'));
  });

  test('has a flag of the command line, and a line in what it shows', async () => {
    const { readOptionFlags, addOptionFlags } =
      await import('../../../packages/cli/src/runs/option-flags.js');
    const command = addOptionFlags(new Command().argument('<image>')).action(() => undefined);
    const argv = ['i', '--colour', 'red'];
    command.parse(argv, { from: 'user' });
    assert.deepEqual(await readOptionFlags(command.opts(), [], { env: {} }), { colour: 'red' });
    assert.match(command.helpInformation(), /--colour <text> +in answers\n/);
    const { runDetails } = await import('../../../packages/cli/src/runs/run-view.js');
    assert.match(runDetails(await steps.create({ colour: 'red' }), false), /^colour +red$/m);
  });

  test('has a field in the forms of the dashboard', async () => {
    const fields = await import('../../../packages/dashboard/src/run-form/run-fields.js');
    for (const rows of [fields.ADVANCED_RUN_ROWS, fields.ADVANCED_DEFINITION_ROWS]) {
      const found = rows.flat().find(({ path }) => path === 'colour');
      assert.deepEqual(found, { path: 'colour', kind: 'text', label: 'Colour', hint: 'In answers' });
    }
    const run = await steps.create({ colour: 'red' });
    assert.deepEqual(fields.containerOf(run), { colour: 'red' });
  });

  test('is taken over by a rerun', async () => {
    const run = await steps.create({ colour: 'red' });
    await service.send('POST', `/runs/${run.id}/cancel`);
    assert.equal((await service.send('POST', `/runs/${run.id}/rerun`)).body.colour, 'red');
  });

  test('reaches the container of the worker, which refuses the run without the capability', async () => {
    const { readClaimedRun } = await import('../../../packages/worker/src/service-api/read-answers.js');
    const { carriedOptions } = await import('../../../packages/worker/src/service-api/service-api.js');
    const { missingCapabilities } = await import('../../../packages/worker/src/execution/executor.js');
    const op = { id: 'r', image: 'i', inputs: {}, constraints: {}, attempt: 1 };
    const claimed = readClaimedRun({ ...op, colour: 'red' }) ?? assert.fail('it is read');
    assert.equal(Reflect.get(carriedOptions(claimed.container), 'colour'), 'red');
    assert.match(missingCapabilities({ name: 'x', capabilities: ['env'] }, claimed) ?? '', /needs paint/);
    assert.equal(readClaimedRun({ ...op, colour: 1 }), null);
  });

  test('that is an integer without a default is null where it is not set, up to the container', async () => {
    const { readClaimedRun } = await import('../../../packages/worker/src/service-api/read-answers.js');
    const op = { id: 'r', image: 'i', inputs: {}, constraints: {}, attempt: 1 };
    for (const given of [{ depth: 3 }, {}]) {
      const depth = given.depth ?? null;
      assert.equal((await steps.create(given)).depth, depth);
      const { container } = readClaimedRun({ ...op, ...given }) ?? assert.fail('it is read');
      assert.equal(Reflect.get(container, 'depth'), depth);
    }
    const { schemas } = (await service.send('GET', '/docs-json')).body.components;
    assert.deepEqual(schemas.OpRun.properties.depth.type, ['integer', 'null']);
  });
});
