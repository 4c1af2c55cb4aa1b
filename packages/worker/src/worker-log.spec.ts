import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createWorkerLog } from './worker-log.js';

function logged(pretty: boolean): string[] {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const log = createWorkerLog({ workerId: 'w', logLevel: 'info' }, { destination, pretty });
  log.debug('hidden');
  log.child({ run: 'r' }).info({ line: 'two\nlines \u001b[31m' }, 'said');
  return lines;
}

test('writes a JSON line with level, ISO time, worker, message and fields', () => {
  const [line = '', ...more] = logged(false);
  assert.equal(more.length, 0);
  const { time, ...rest } = JSON.parse(line);
  assert.match(time, /^\d{4}-\d\d-\d\dT.*Z$/);
  assert.deepEqual(rest, {
    level: 'info',
    worker: 'w',
    run: 'r',
    line: 'two\nlines \u001b[31m',
    msg: 'said',
  });
});

test('writes one readable line with control characters escaped', () => {
  const [line = '', ...more] = logged(true);
  assert.equal(more.length, 0);
  assert.match(line, /INFO.*said.*\n$/);
  assert.equal(line.trimEnd().split('\n').length, 1);
  assert.ok(!line.includes('lines \u001b[31m'));
});
