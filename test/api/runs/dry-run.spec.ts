import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { readWarnings } from '@longshore/common/warnings';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

for (const strategy of ['fit', 'direct'] as const) {
  describe(`dry_run=true, with the strategy ${strategy}`, () => {
    const service = useTestApp({ env: { SERVICE_SCHEDULER: strategy } });
    const steps = new RunSteps(service.send);
    const stored = async (): Promise<unknown> => [
      (await service.send('GET', '/runs')).body,
      (await service.send('GET', '/definitions')).body,
      (await service.send('GET', '/audit')).body,
    ];

    beforeAll(async () => {
      await steps.heartbeat('plain', { tags: ['eu'] });
      await steps.heartbeat('able', { tags: ['eu'], capabilities: ['env'] });
    });

    test('answers with the run that would be created, its warnings and the number of able workers', async () => {
      const before = await stored();
      const body = { image: 'i', labels: { team: 'x' }, selector: ['eu'], args: [], env: { A: '${run.id}' } };
      const answer = await service.send('POST', '/runs?dry_run=true', { body });
      const run = bodyOf(answer, 'OpRunPreview');
      assert.deepEqual(
        [run.state, run.labels, run.env, run.able_workers],
        ['PENDING', body.labels, body.env, 1],
      );
      assert.deepEqual(readWarnings(answer.headers), [
        'env.A: ${run.id} is plain text here: only definitions replace it',
      ]);
      assert.equal((await service.send('GET', `/runs/${run.id}`)).status, 404);
      for (const [more, able] of [
        [{}, 2],
        [{ selector: ['us'] }, 0],
        [{ constraints: { gpus: 1 } }, 0],
      ] as const) {
        const { body: other } = await service.send('POST', '/runs?dry_run=true', {
          body: { image: 'i', ...more },
        });
        assert.equal(other.able_workers, able, JSON.stringify(more));
      }
      const wrong = { image: 'i', labels: { 'epi:env': 'x', Department: 'y' } };
      assertInvalid(await service.send('POST', '/runs?dry_run=true', { body: wrong }), [
        'labels["epi:env"], labels.Department must have as name 1 to 63 characters of a-z, 0-9 and . _ / -, ' +
          'the first and the last a letter or digit, such as epi-env, department',
      ]);
      assert.deepEqual(await stored(), before);
    });

    test('answers for each item of a batch', async () => {
      const before = await stored();
      const runs = [{ image: 'a' }, { image: 5 }, { image: 'b', selector: ['us'] }];
      const { status, body } = await service.send('POST', '/runs/batch?dry_run=true', { body: { runs } });
      assert.equal(status, 200);
      assert.deepEqual(
        body.results.map(({ status: one, run }: { status: number; run?: Record<string, unknown> }) => [
          one,
          run?.['image'],
          run?.['able_workers'],
        ]),
        [
          [200, 'a', 2],
          [400, undefined, undefined],
          [200, 'b', 0],
        ],
      );
      assert.deepEqual(await stored(), before);
    });

    test('answers with the definition that would be stored, new or in place of another', async () => {
      const definition = { id: `d-${strategy}`, version: '1', image: 'i', env: { A: 'b' } };
      const first = await service.send('POST', '/definitions?dry_run=true', { body: definition });
      assert.deepEqual([first.status, first.body.env, first.body.able_workers], [200, { A: 'b' }, 1]);
      assert.equal((await service.send('GET', `/definitions/${definition.id}`)).status, 404);
      const { createdAt } = (await service.send('POST', '/definitions', { body: definition })).body;
      const before = await stored();
      const body = { ...definition, image: 'other', args: ['{{inputs.x}}'] };
      const again = await service.send('POST', '/definitions?dry_run=true', { body });
      assert.deepEqual([again.status, again.body.image, again.body.createdAt], [200, 'other', createdAt]);
      assert.equal(readWarnings(again.headers).length, 1);
      const refused = await service.send('POST', '/definitions?dry_run=true', {
        body: { ...definition, args: ['${inputs.x}'] },
      });
      assertInvalid(refused, ['args[0]: ${inputs.x}: no such input']);
      assert.deepEqual(await stored(), before);
    });
  });
}

describe('images', () => {
  const service = useTestApp();
  test('in the forms of other tools are refused with the right form', async () => {
    for (const [image, right] of [
      ['docker://registry.example/a/b:1', 'registry.example/a/b:1'],
      ['https://registry.example/a', 'registry.example/a'],
      ['host:5005#team/x', 'host:5005/team/x'],
    ] as const) {
      const errors = [`image must be without a scheme and #: ${right}`];
      assertInvalid(await service.send('POST', '/runs', { body: { image } }), errors);
      const definition = { id: 'd', version: '1', image };
      assertInvalid(await service.send('POST', '/definitions', { body: definition }), errors);
    }
  });
});
