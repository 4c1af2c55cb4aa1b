import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const OUT = { volume: 'results', path: '/out' };
const SUB_PATH =
  'mounts[0].sub_path must be a relative path of at most 512 characters without control characters and parts that are empty, . or ..';

for (const strategy of ['fit', 'direct'] as const) {
  describe(`mounts, with the strategy ${strategy}`, () => {
    const service = useTestApp({ env: { SERVICE_SCHEDULER: strategy } });
    const steps = new RunSteps(service.send);

    test('are given only to workers that offer their volumes, for writing where the run writes', async () => {
      const reading = await steps.create({ mounts: [{ ...OUT, read_only: true }] });
      await steps.heartbeat('none', { capabilities: ['volume:results-2', 'volume:results-2:rw', 'scratch'] });
      assert.deepEqual(await steps.claim('none'), []);
      await steps.heartbeat('reader', { capabilities: ['volume:results'] });
      const [read] = await steps.claim('reader');
      assert.deepEqual([read.id, read.mounts], [reading.id, [{ ...OUT, read_only: true }]]);

      const writing = await steps.create({ mounts: [OUT] });
      await steps.heartbeat('reader-2', { capabilities: ['volume:results'] });
      assert.deepEqual(await steps.claim('reader-2'), []);
      await steps.heartbeat('writer', { capabilities: ['volume:results', 'volume:results:rw'] });
      assert.equal((await steps.claim('writer'))[0].id, writing.id);

      const scratch = await steps.create({ mounts: [{ scratch_mb: 500, path: '/scratch' }] });
      await steps.heartbeat('writer-2', { capabilities: ['volume:results', 'volume:results:rw'] });
      assert.deepEqual(await steps.claim('writer-2'), []);
      await steps.heartbeat('scratch', { capabilities: ['scratch'] });
      assert.equal((await steps.claim('scratch'))[0].id, scratch.id);
    });
  });
}

describe('the folder of a run within a volume', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let count = 0;

  const define = async (more: object): Promise<TestAnswer> => {
    const body = { id: `mounts-${(count += 1)}`, version: '1', image: 'i', ...more };
    return service.send('POST', '/definitions', { body });
  };
  const runOf = async (more: object, body: object = {}): Promise<TestAnswer> => {
    const defined = await define(more);
    assert.equal(defined.status, 201, JSON.stringify(defined.body));
    return service.send('POST', `/definitions/${defined.body.id}/runs`, { body });
  };

  test('may have the id of the run, in every run', async () => {
    const mounts = [{ ...OUT, sub_path: 'a/${run.id}-${run.id}/$${run.id}' }];
    const run = await steps.create({ mounts });
    assert.equal(run['mounts'][0].sub_path, `a/${run.id}-${run.id}/$${run.id}`);
    assert.deepEqual(await steps.get(run.id), run);
    const [batched] = await new BulkSteps(service.send).create([{ image: 'i', mounts }]);
    assert.match(batched.run.mounts[0].sub_path, new RegExp(`^a/${batched.run.id}-${batched.run.id}/`));
    const ofDefinition = await runOf({}, { mounts });
    assert.equal(
      subPathOf(ofDefinition),
      `a/${ofDefinition.body.id}-${ofDefinition.body.id}/$${ofDefinition.body.id}`,
    );
    const named = await steps.create({ name: 'train-7', mounts: [{ ...OUT, sub_path: 'a/${run.name}' }] });
    assert.equal(named['mounts'][0].sub_path, 'a/train-7');
  });

  test('may have no other reference in a run, which would be a folder of that name', async () => {
    for (const [subPath, problem, more] of [
      [
        'x/${inputs.a}',
        'mounts[0].sub_path: ${inputs.a}: unknown, only ${run.id} and ${run.name} are replaced',
        {},
      ],
      ['${HOME', 'mounts[0].sub_path: ${HOME: unknown, only ${run.id} and ${run.name} are replaced', {}],
      ['${run.name}', 'mounts[0].sub_path: ${run.name}: the run has no name', {}],
      ['${run.name}', SUB_PATH, { name: '..' }],
    ] as const) {
      const body = { image: 'i', mounts: [{ ...OUT, sub_path: subPath }], ...more };
      assertInvalid(await service.send('POST', '/runs', { body }), [problem]);
      assertInvalid(await runOf({}, { mounts: body.mounts, ...more }), [problem]);
      const { results } = (await service.send('POST', '/runs/batch', { body: { runs: [body] } })).body;
      assert.deepEqual([results[0].status, results[0].error.errors], [400, [problem]]);
    }
  });

  test('may have inputs in a definition, which are replaced once', async () => {
    const specs = { input_specs: { team: { type: 'string' }, n: { type: 'integer' } } };
    const mounts = [{ ...OUT, sub_path: '${inputs.team}/${inputs.n}/${run.id}/$${run.id}' }];
    const run = await runOf({ ...specs, mounts }, { inputs: { team: 'a/${run.id}', n: 7 } });
    assert.equal(subPathOf(run), `a/\${run.id}/7/${run.body.id}/\${run.id}`);
    for (const team of ['', '..', '/a', 'a/../../b'])
      assertInvalid(await runOf({ ...specs, mounts }, { inputs: { team, n: 7 } }), [SUB_PATH]);
    const absent = await runOf({ ...specs, mounts }, { inputs: { n: 7 } });
    assert.equal(absent.status, 400);
    assert.match(
      JSON.stringify(absent.body),
      /mounts\[0\]\.sub_path: the run does not have what it refers to/,
    );
    const own = await runOf({ ...specs, mounts }, { inputs: { n: 7 }, mounts: [OUT] });
    assert.deepEqual(own.body.mounts, [OUT], 'what the run replaces is not looked at');
    for (const [text, problem] of [
      ['${inputs.other}', 'mounts[0].sub_path: ${inputs.other}: no such input'],
      [
        '${x}',
        'mounts[0].sub_path: ${x}: unknown, only ${inputs.NAME}, ${run.id}, ${run.name}, ${group.id}, ${array.index}, ${array.size}, ' +
          '${schedule.time}, ${schedule.date}, ${schedule.previous} and ${schedule.next} are replaced; $${ is a literal ${',
      ],
    ] as const)
      assertInvalid(await define({ ...specs, mounts: [{ ...OUT, sub_path: text }] }), [problem]);
  });

  test('comes with all mounts from the definition or from its run, and must fit the files of both', async () => {
    const scratch = { scratch_mb: 1, path: '/tmp/x' };
    const definition = { mounts: [OUT, scratch], files: { '/etc/a': { content: 'a' } } };
    assert.deepEqual((await runOf(definition)).body.mounts, [OUT, scratch]);
    assert.deepEqual((await runOf(definition, { mounts: [scratch] })).body.mounts, [scratch]);
    assert.deepEqual((await runOf(definition, { mounts: [] })).body.mounts, []);
    const problem = 'mounts[0].path must not be, be in or contain the path of a file';
    assertInvalid(await runOf(definition, { files: { '/out/b': { content: '' } } }), [problem]);
    assertInvalid(await runOf(definition, { mounts: [{ ...OUT, path: '/etc' }] }), [problem]);
  });

  test('shows in lists size and SHA-256 of the bytes of each file instead of its content', async () => {
    const { files } = await steps.create({
      files: {
        '/text': { content: 'ü' },
        '/bytes': { content_base64: 'w7w=', mode: '0400' },
        '/s': { secret: 's' },
      },
    });
    assert.deepEqual(files['/bytes'], { content_base64: 'w7w=', mode: '0400' });
    const list = await service.send('GET', '/runs?limit=1');
    const bytes = { size: 2, sha256: createHash('sha256').update('ü').digest('hex') };
    assert.deepEqual(list.body.data[0].files, {
      '/text': bytes,
      '/bytes': { ...bytes, mode: '0400' },
      '/s': { secret: 's' },
    });
  });
});

function subPathOf({ body }: TestAnswer): unknown {
  return body.mounts?.[0].sub_path;
}
