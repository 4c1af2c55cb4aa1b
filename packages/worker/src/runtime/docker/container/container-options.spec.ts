import assert from 'node:assert/strict';
import { test } from 'vitest';
import { RUN_OPTIONS } from '@longshore/client/constants';
import { NO_CONSTRAINTS } from '../../../service-api/constraints.js';
import { containerSpec } from '../../../testing/container-spec.js';
import { sampleOptions } from '../../../testing/sample-options.js';
import { CONTAINER_CAPABILITIES, type ContainerSpec } from '../../runtime.js';
import { containerOptions, gpuRequest, probeOptions } from './container-options.js';

const ENGINE = {
  hasLog: true,
  hasInit: true,
  isRemapped: false,
  isPodman: false,
  discards: [],
  keepsReadOnly: true,
  cores: 1,
};

const optionsOf = (spec: ContainerSpec, cores = 1) => {
  const engine = { ...ENGINE, cores };
  const owner = { workerId: 'w-1', instance: '1f3a90cc' };
  return containerOptions(spec, owner, { network: undefined, engine, pids: null, mounts: [] });
};

test('puts variables of the worker above those of the run', () => {
  const trace = {
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    tracestate: null,
  };
  const env = { A: '1', SERVICE_INPUT_PATH: '/etc/passwd', TRACEPARENT: 'x', TRACESTATE: 'kept' };
  const limits = { ...NO_CONSTRAINTS, ramMb: 512, cpuMillis: 1500 };
  const spec = { ...containerSpec('tool'), env, trace, limits };
  assert.deepEqual(optionsOf(spec).Env, [
    'A=1',
    'SERVICE_INPUT_PATH=/longshore/input.json',
    `TRACEPARENT=${trace.traceparent}`,
    'TRACESTATE=kept',
    'SERVICE_OUTPUT_PATH=/longshore/output.json',
    `SERVICE_RUN_ID=${spec.runId}`,
    'SERVICE_RUN_ATTEMPT=1',
    'SERVICE_CPU=2',
    'SERVICE_RAM_MB=512',
    'NVIDIA_VISIBLE_DEVICES=void',
  ]);
  const traced = optionsOf({ ...spec, trace: { ...trace, tracestate: 'a=1' } });
  assert.ok(traced.Env?.includes('TRACESTATE=a=1') && !traced.Env.includes('TRACESTATE=kept'));
});

test('lets neither run nor image choose GPUs: those of the run alone are visible, and without any none', () => {
  const spec = { ...containerSpec('tool'), env: { NVIDIA_VISIBLE_DEVICES: 'all' } };
  const visible = (gpuIds: readonly number[]) =>
    optionsOf({ ...spec, limits: { ...NO_CONSTRAINTS, gpuIds } }).Env?.filter((entry) =>
      entry.startsWith('NVIDIA_VISIBLE_DEVICES='),
    );
  assert.deepEqual(visible([]), ['NVIDIA_VISIBLE_DEVICES=void']);
  assert.deepEqual(visible([2, 0]), ['NVIDIA_VISIBLE_DEVICES=2,0']);
});

test('asks Podman for GPUs by their names of the container device interface', () => {
  const isPodman = { isPodman: true };
  assert.deepEqual(gpuRequest({ gpuIds: [0, 2], vramMb: 0 }, isPodman), {
    DeviceRequests: [{ Driver: 'cdi', DeviceIDs: ['nvidia.com/gpu=0', 'nvidia.com/gpu=2'] }],
  });
  assert.deepEqual(gpuRequest({ gpuIds: [], vramMb: 0 }, isPodman), {});
});

for (const [what, command, args, Entrypoint, Cmd] of [
  ['nothing', null, null, undefined, undefined],
  ['a command alone', ['tool', '-v'], null, ['tool', '-v'], []],
  ['both', ['tool'], ['a b'], ['tool'], ['a b']],
  ['arguments alone', null, ['a b', ''], undefined, ['a b', '']],
  ['empty lists', [], [], undefined, undefined],
] as const) {
  test(`replaces entrypoint and arguments of the image as Kubernetes does, given ${what}`, () => {
    const options = optionsOf({ ...containerSpec('tool'), command, args });
    assert.deepEqual([options.Entrypoint, options.Cmd], [Entrypoint, Cmd]);
  });
}

test('labels a container of the worker itself as one without a run, whatever labels its image has', () => {
  assert.deepEqual(probeOptions('tool', { workerId: 'w-1', instance: '1f3a90cc' }).Labels, {
    'longshore.worker': 'w-1',
    'longshore.instance': '1f3a90cc',
    'longshore.run': '',
  });
});

test('labels the container with the name and the labels of the run, besides those by which its worker finds it', () => {
  const spec = { ...containerSpec('tool'), name: 'nightly', labels: { team: 'vision', run: 'other' } };
  assert.deepEqual(optionsOf(spec).Labels, {
    ...optionsOf(containerSpec('tool')).Labels,
    'longshore.run': spec.runId,
    'longshore.name': 'nightly',
    'longshore.label.team': 'vision',
    'longshore.label.run': 'other',
  });
});

for (const [what, cores, limits, expected] of [
  ['half a core', 8, { cpuMillis: 500, cpuLimitMillis: 500 }, { CpuShares: 512, NanoCpus: 500_000_000 }],
  [
    'a limit above the request',
    8,
    { cpuMillis: 250, cpuLimitMillis: 4000 },
    { CpuShares: 256, NanoCpus: 4e9 },
  ],
  ['a request without a limit', 8, { cpuMillis: 3000 }, { CpuShares: 3072 }],
  ['a limit without a request', 8, { cpuLimitMillis: 1500 }, { NanoCpus: 1_500_000_000 }],
  ['less than engines take', 8, { cpuMillis: 1, cpuLimitMillis: 1 }, { CpuShares: 2, NanoCpus: 10_000_000 }],
  [
    'a limit of more cores than there are',
    2,
    { cpuMillis: 500, cpuLimitMillis: 8000 },
    { CpuShares: 512, NanoCpus: 2e9 },
  ],
  [
    'a request of more cores than there are',
    2,
    { cpuMillis: 300_000, cpuLimitMillis: 300_000 },
    { CpuShares: 262_144, NanoCpus: 3e11 },
  ],
] as const) {
  test(`gives the share of CPU time, with ${what}`, () => {
    const { HostConfig } = optionsOf(containerSpec('tool', {}, limits), cores);
    const { CpuShares, NanoCpus } = HostConfig ?? {};
    assert.deepEqual({ CpuShares, NanoCpus }, { CpuShares: undefined, NanoCpus: undefined, ...expected });
  });
}

test('gives /dev/shm the size that the run says, else its memory, else that of the engine', () => {
  const sizes = [{ shmMb: 64, ramMb: 512 }, { shmMb: 64 }, { ramMb: 512 }, {}].map(
    (limits) => optionsOf(containerSpec('tool', {}, limits)).HostConfig?.ShmSize,
  );
  assert.deepEqual(sizes, [64 * 2 ** 20, 64 * 2 ** 20, 512 * 2 ** 20, undefined]);
});

test('requests each of the GPUs of the run, or any when it needs GPU memory and none is chosen', () => {
  const requestsOf = [{ gpuIds: [0, 5], vramMb: 1 }, { vramMb: 1 }, {}].map(
    (limits) => optionsOf(containerSpec('tool', {}, limits)).HostConfig?.DeviceRequests,
  );
  const gpu = { Driver: '', Capabilities: [['gpu']] };
  assert.deepEqual(requestsOf, [[{ ...gpu, DeviceIDs: ['0', '5'] }], [{ ...gpu, Count: 1 }], undefined]);
});

test('sets the limits of the program that the run says, soft and hard, and no others', () => {
  const { HostConfig } = optionsOf({
    ...containerSpec('tool'),
    ulimits: { nofile: 65_536, memlock: -1, core: 0 },
  });
  assert.deepEqual(HostConfig?.Ulimits, [
    { Name: 'nofile', Soft: 65_536, Hard: 65_536 },
    { Name: 'memlock', Soft: -1, Hard: -1 },
    { Name: 'core', Soft: 0, Hard: 0 },
  ]);
  assert.equal(optionsOf(containerSpec('tool')).HostConfig?.Ulimits, undefined);
});

test('carries out every option of a run', () => {
  const needed = RUN_OPTIONS.flatMap(({ capabilities }) =>
    capabilities.map((one) => (typeof one === 'string' ? one : one.name)),
  );
  const ofConstraints = ['cpu_millis', 'gpus', 'shm'];
  assert.deepEqual(
    new Set([...needed, ...ofConstraints]),
    new Set([...CONTAINER_CAPABILITIES, 'network:', 'stop_grace:', 'ulimit:', 'volume:']),
  );
  const spec = containerSpec('tool');
  for (const options of sampleOptions(CONTAINER_CAPABILITIES)) {
    const created = optionsOf({ ...spec, ...options });
    assert.notDeepEqual(created, optionsOf(spec), Object.keys(options).join());
  }
});

test('gives the containers of runs and the probe the OCI runtime that the operator has chosen, else that of the engine', () => {
  const owner = { workerId: 'w-1', instance: '1f3a90cc' };
  const choices = { network: undefined, engine: ENGINE, pids: null, mounts: [] };
  for (const ociRuntime of ['runsc', null, undefined]) {
    const bodies = [
      containerOptions(containerSpec('tool'), owner, {
        ...choices,
        ...(ociRuntime !== undefined && { ociRuntime }),
      }),
      probeOptions('tool', owner, ociRuntime === undefined ? {} : { ociRuntime }),
    ];
    for (const { HostConfig } of bodies) assert.equal(HostConfig?.Runtime, ociRuntime ?? undefined);
  }
});
