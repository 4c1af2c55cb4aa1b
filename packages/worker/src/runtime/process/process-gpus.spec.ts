import assert from 'node:assert/strict';
import { test } from 'vitest';
import { visibleGpus } from './process.runtime.js';

test('programs that use CUDA see their own GPUs alone, numbered as nvidia-smi numbers them', () => {
  assert.deepEqual(visibleGpus([2, 3]), { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: '2,3' });
  assert.deepEqual(
    visibleGpus([]),
    { CUDA_DEVICE_ORDER: 'PCI_BUS_ID', CUDA_VISIBLE_DEVICES: '' },
    'without GPUs none, whatever the run says',
  );
});
