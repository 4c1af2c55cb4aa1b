import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Schemas } from '@longshore/client';
import { EXAMPLES } from './examples.js';

function ended(change: Partial<Schemas['OpRun']>): Schemas['OpRun'] {
  return {
    id: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b',
    state: 'COMPLETED',
    priority: 0,
    progress: 100,
    current_attempt: 1,
    image: 'x',
    inputs: {},
    outputs: {},
    events: [],
    execution_summary: {},
    constraints: { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null },
    retry_policy: { max_attempts: 1 },
    env: {},
    command: null,
    args: null,
    secrets: {},
    secrets_from: [],
    group: null,
    array: null,
    files: {},
    mounts: [],
    artifacts: {},
    image_pull_secret: null,
    workdir: null,
    user: null,
    network: null,
    stop_grace_s: 10,
    ulimits: {},
    selector: [],
    name: null,
    labels: {},
    concurrency: null,
    start_at: null,
    event_delivery: null,
    op_definition: null,
    op_definition_version: null,
    created_by: null,
    source: null,
    rerun_of: null,
    schedule: null,
    reruns: 0,
    createdAt: '2026-01-02T03:04:05.678Z',
    updatedAt: '2026-01-02T03:04:05.678Z',
    ...change,
  };
}

function verify(name: string, run: Schemas['OpRun'], types: readonly string[] = []): readonly string[] {
  return EXAMPLES.find((example) => example.name === name)?.verify(run, types) ?? ['no such example'];
}

describe('the examples of the demo', () => {
  it('expect the right counts of word-count', () => {
    const outputs = { words: 6, lines: 2, characters: 34 };
    assert.deepEqual(verify('word-count', ended({ outputs })), []);
    assert.equal(verify('word-count', ended({ outputs: { ...outputs, words: 7 } })).length, 1);
    assert.equal(verify('word-count', ended({ outputs, state: 'FAILED' })).length, 1);
  });

  it('expect progress to be reported and to reach 100', () => {
    assert.deepEqual(verify('progress', ended({}), ['STARTED', 'PROGRESS', 'COMPLETED']), []);
    assert.equal(verify('progress', ended({}), ['STARTED', 'COMPLETED']).length, 1);
    assert.equal(verify('progress', ended({ progress: 90 }), ['PROGRESS']).length, 1);
  });

  it('expect fail to fail with its exit code', () => {
    const failed = (message: string): Schemas['OpRun'] =>
      ended({ state: 'FAILED', execution_summary: { error_message: message } });
    assert.deepEqual(verify('fail', failed('The container ended with exit code 3. Its last log lines:')), []);
    assert.equal(verify('fail', failed('The container ended with exit code 33.')).length, 1);
    assert.equal(verify('fail', ended({})).length, 2);
  });
});
