import assert from 'node:assert/strict';
import { test } from 'vitest';
import { createWorkerLog } from './worker-log.js';

const FORGED = 'x\r\n{"level":"error"}\u007f\u009b31m\u2028\u202e\u2066\u200f';

function logged(pretty: boolean): string[] {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const log = createWorkerLog({ workerId: 'w', logLevel: 'info' }, { destination, pretty });
  log.debug('hidden');
  log.child({ run: 'r' }).info({ line: 'two\nlines \u001b[31m' }, 'said');
  return lines;
}

for (const pretty of [false, true]) {
  test(`lets no text from outside add a line or reach a terminal, ${pretty ? 'readable' : 'as JSON'}`, () => {
    let text = '';
    const destination = { write: (line: string) => void (text += line) };
    const log = createWorkerLog({ workerId: 'w', logLevel: 'info' }, { destination, pretty });
    log.info({ reason: FORGED }, FORGED);
    assert.equal(text.match(/\n/g)?.length, 1);
    // oxlint-disable-next-line no-control-regex -- colours of the log itself
    const plain = text.replaceAll(/\u001b\[\d+m/g, '');
    // oxlint-disable-next-line no-control-regex -- these characters are what must be absent
    assert.doesNotMatch(plain, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066\u200f]/);
    if (!pretty) assert.equal(JSON.parse(text).reason, FORGED);
  });
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
