import assert from 'node:assert/strict';
import { test } from 'vitest';
import { RUN_OPTIONS } from '@longshore/client/constants';
import { containerSpec } from '../../../testing/container-spec.js';
import { sampleOptions } from '../../../testing/sample-options.js';
import { CAPABILITIES, containerOptions } from './container-options.js';

const OWNER = { workerId: 'w-1', instance: '1f3a90cc' };

test('puts variables of the worker above those of the run', () => {
  const trace = {
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: null,
  };
  const env = { A: '1', SERVICE_INPUT_PATH: '/etc/passwd', TRACEPARENT: 'x', TRACESTATE: 'kept' };
  const limits = { ramMb: 512, cpu: 2, gpuId: null, vramMb: 0 };
  const spec = { ...containerSpec('tool'), env, trace, limits };
  assert.deepEqual(containerOptions(spec, OWNER).Env, [
    'A=1',
    'SERVICE_INPUT_PATH=/longshore/input.json',
    `TRACEPARENT=${trace.traceparent}`,
    'TRACESTATE=kept',
    'SERVICE_OUTPUT_PATH=/longshore/output.json',
    `SERVICE_RUN_ID=${spec.runId}`,
    'SERVICE_RUN_ATTEMPT=1',
    'SERVICE_CPU=2',
    'SERVICE_RAM_MB=512',
  ]);
});

for (const [what, command, args, Entrypoint, Cmd] of [
  ['nothing', null, null, undefined, undefined],
  ['a command alone', ['tool', '-v'], null, ['tool', '-v'], []],
  ['both', ['tool'], ['a b'], ['tool'], ['a b']],
  ['arguments alone', null, ['a b', ''], undefined, ['a b', '']],
  ['empty lists', [], [], undefined, undefined],
] as const) {
  test(`replaces entrypoint and arguments of the image as Kubernetes does, given ${what}`, () => {
    const options = containerOptions({ ...containerSpec('tool'), command, args }, OWNER);
    assert.deepEqual([options.Entrypoint, options.Cmd], [Entrypoint, Cmd]);
  });
}

test('labels the container with the name and the labels of the run, besides those by which its worker finds it', () => {
  const spec = { ...containerSpec('tool'), name: 'nightly', labels: { team: 'vision', run: 'other' } };
  assert.deepEqual(containerOptions(spec, OWNER).Labels, {
    ...containerOptions(containerSpec('tool'), OWNER).Labels,
    'longshore.run': spec.runId,
    'longshore.name': 'nightly',
    'longshore.label.team': 'vision',
    'longshore.label.run': 'other',
  });
});

test('carries out every option of a run', () => {
  const needed = RUN_OPTIONS.flatMap(({ capabilities }) => capabilities);
  assert.deepEqual(new Set(needed), new Set([...CAPABILITIES, 'network:', 'volume:']));
  const spec = containerSpec('tool');
  for (const options of sampleOptions(CAPABILITIES)) {
    const created = containerOptions({ ...spec, ...options }, OWNER);
    assert.notDeepEqual(created, containerOptions(spec, OWNER), Object.keys(options).join());
  }
});
