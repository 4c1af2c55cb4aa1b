// Loaded into the service by `node --expose-gc --import`: on SIGUSR2 it collects garbage and writes
// `process.memoryUsage()` to the file BENCH_MEMORY_FILE. With BENCH_HEAP_SNAPSHOTS it also writes a heap snapshot to that folder.
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { writeHeapSnapshot } from 'node:v8';

const { BENCH_MEMORY_FILE: file, BENCH_HEAP_SNAPSHOTS: folder } = process.env;
let collections = 0;

async function collect() {
  // Finalizers of the first collection release what the second one collects.
  for (let pass = 0; pass < 3; pass += 1) {
    globalThis.gc();
    await setImmediate();
  }
  writeFileSync(`${file}.new`, JSON.stringify(process.memoryUsage()));
  renameSync(`${file}.new`, file);
  collections += 1;
  if (folder) writeHeapSnapshot(join(folder, `${process.pid}-${collections}.heapsnapshot`));
}

process.on('SIGUSR2', () => {
  void collect();
});
