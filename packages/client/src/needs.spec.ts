import assert from 'node:assert/strict';
import { test } from 'vitest';
import { describeGrowth, describeNeeds, shortFile } from './needs.js';

const NOTHING = { cpu: 0, ram_mb: 0, vram_mb: 0, gpu_id: null };
const inMb = (mb: number): string => `${mb} MB`;

test('constraints in words name what is asked for, and nothing else', () => {
  assert.deepEqual(describeNeeds(NOTHING, inMb), []);
  assert.deepEqual(describeNeeds({ cpu: 2, ram_mb: 512, vram_mb: 256, gpu_id: 1 }, inMb), [
    '2 CPU',
    '512 MB RAM',
    '256 MB GPU memory',
    'GPU 1',
  ]);
  const parts = { ...NOTHING, cpu: 1, cpu_millis: 250, cpu_limit_millis: 1500, shm_mb: 64 };
  assert.deepEqual(describeNeeds(parts, inMb), ['0.25 CPU', 'at most 1.5 CPU', '64 MB /dev/shm']);
  assert.deepEqual(describeNeeds({ ...NOTHING, cpu: 1, cpu_limit_millis: 0 }, inMb), [
    '1 CPU',
    'no limit of CPU',
  ]);
  const whole = { gpus: 2, vram_mb: 40_000, gpu_selector: ['a100', 'nvlink'], gpu_id: 0, gpu_ids: [0, 3] };
  assert.deepEqual(describeNeeds({ ...NOTHING, ...whole }, inMb), [
    '2 whole GPUs',
    '40000 MB GPU memory each',
    'GPU tags a100+nvlink',
    'GPUs 0+3',
  ]);
});

test('growth in words names the factor, the failures and the maximum', () => {
  assert.equal(
    describeGrowth({ ram_mb: { factor: 1.5, max: 4096 } }, inMb),
    'RAM x 1.5 after oom, at most 4096 MB',
  );
  assert.equal(
    describeGrowth({ ram_mb: { factor: 2, max: 9, on: ['oom', 'exit:137'] } }, inMb),
    'RAM x 2 after oom, exit:137, at most 9 MB',
  );
  assert.equal(
    describeGrowth({ ram_mb: { factor: 2, max: 9, on: [] } }, inMb),
    'RAM x 2 after no failure, at most 9 MB',
  );
});

test('a file of a run in words has the number of its bytes in place of base64', () => {
  for (const size of [0, 1, 2, 3, 4, 65_536]) {
    const file = { content_base64: Buffer.alloc(size, 0xff).toString('base64'), mode: '0400' };
    assert.deepEqual(shortFile(file), { content_base64: `binary, ${size} bytes`, mode: '0400' });
  }
  const text = { content: 'YQ==' };
  assert.equal(shortFile(text), text);
});
