import assert from 'node:assert/strict';
import { test } from 'vitest';
import { PLAIN } from '../testing/fake-service.js';
import { CALL, SHOWN_RUN, StubService } from '../testing/service-calls.js';
import { readRun, readSecrets } from './read-answers.js';
import { NO_CONSTRAINTS } from './constraints.js';

test('a run is read with all that its execution needs, as a claim gives it', () => {
  const traceparent = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`;
  const run = readRun(
    {
      ...SHOWN_RUN,
      constraints: { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: 4 },
      env: { A: 'b' },
      command: null,
      args: ['-x'],
      secrets: { TOKEN: 'token' },
      secrets_from: [{ secret: 'map' }],
      files: { '/a': { content: 'a' } },
      mounts: [
        { volume: 'v', path: '/v', read_only: true },
        { scratch_mb: 1, path: '/s' },
      ],
      image_pull_secret: 'login',
      selector: ['ssd'],
      traceparent,
    },
    'r',
  );
  assert.deepEqual(run, {
    state: 'RUNNING',
    currentAttempt: 2,
    image: 'i',
    inputs: { a: 1 },
    outputs: { u: 'x' },
    workerId: 'w',
    mustStartInTime: false,
    constraints: {
      ...NO_CONSTRAINTS,
      ramMb: 1,
      vramMb: 2,
      cpuMillis: 3000,
      cpuLimitMillis: 3000,
      gpuIds: [4],
    },
    container: {
      ...PLAIN,
      env: { A: 'b' },
      command: null,
      args: ['-x'],
      secrets: { TOKEN: 'token' },
      secrets_from: [{ secret: 'map' }],
      files: { '/a': { content: 'a' } },
      mounts: [
        { volume: 'v', path: '/v', read_only: true },
        { scratch_mb: 1, path: '/s' },
      ],
      image_pull_secret: 'login',
    },
    selector: ['ssd'],
    trace: { traceparent, tracestate: null },
  });
});

test('a run that is assigned to no worker has none', () => {
  assert.equal(readRun({ ...SHOWN_RUN, execution_summary: {} }, 'r')?.workerId, null);
});

test('a run whose container options or selector are of another shape is not read', () => {
  for (const wrong of [
    { env: { A: 1 } },
    { secrets_from: {} },
    { secrets_from: [{ secret: 1 }] },
    { files: [] },
    { files: { '/a': 'a' } },
    { files: { '/a': { mode: 7 } } },
    { mounts: {} },
    { mounts: ['a'] },
    { mounts: [{ path: null }] },
    { mounts: [{ scratch_mb: 1.5 }] },
    { args: 'x' },
    { image_pull_secret: 1 },
    { selector: ['a', 2] },
    { constraints: { cpu: '1' } },
  ]) {
    assert.equal(readRun({ ...SHOWN_RUN, ...wrong }, 'r'), null, JSON.stringify(wrong));
  }
});

test('secrets of files are read as texts, and from base64 as bytes; in another form nothing is read', () => {
  const answer = { env: {}, files: { '/a': 'a' }, registry: null };
  assert.deepEqual(readSecrets({ ...answer, files_base64: { '/b': '/w==' } }), {
    ...answer,
    files: { '/a': 'a', '/b': Buffer.from([0xff]) },
  });
  for (const wrong of [[], ['/w=='], { '/b': 7 }, { '/b': '/w' }, { '/a': 'a', '/b': '/w==' }])
    assert.equal(readSecrets({ ...answer, files_base64: wrong }), null, JSON.stringify(wrong));
});

test('reads which attempts the worker holds, and sends and reads where their logs go on', async () => {
  const run = { id: 'r', attempt: 2, next_chunk: 3, next_line: 12 };
  const service = new StubService({ runs: [run, { ...run, id: 's', cursor: 'c' }] });
  const log = { nextChunk: 3, nextLine: 12 };
  assert.deepEqual(await service.api.listHeld('w'), {
    kind: 'ok',
    value: [
      { runId: 'r', attempt: 2, log },
      { runId: 's', attempt: 2, log: { ...log, cursor: 'c' } },
    ],
  });
  assert.equal(service.received[0]?.route, 'GET /workers/w/runs');
  const logs = new StubService({ next_chunk: 1, next_line: 0, cursor: 'c' });
  const address = { runId: 'r', attempt: 1, workerId: 'w', number: 0 };
  const chunk = { firstLine: 0, lines: [], skippedBytes: 0, isLast: true, cursor: 'c' };
  const stored = await logs.api.putLogChunk(address, chunk, CALL.signal);
  assert.deepEqual(stored, { kind: 'ok', value: { nextChunk: 1, nextLine: 0, cursor: 'c' } });
  assert.deepEqual(logs.bodies(), [{ first_line: 0, lines: [], is_last: true, cursor: 'c' }]);
});
