import assert from 'node:assert/strict';
import { test } from 'vitest';
import { failureHint } from './failure-hint.js';

const NOTHING = { files: {}, command: null, args: null, user: '7' };
const SCRIPT = '#!/bin/sh\necho\n';

function hintOf(content: string, mode: string | undefined, code = 126, more: object = {}): string | null {
  const files = { '/job/run.sh': { content, ...(mode !== undefined && { mode }) } };
  return failureHint({ ...NOTHING, files, command: ['/job/run.sh'], ...more }, code, []);
}

function hint(user: string | null, line: string): string | null {
  return failureHint({ ...NOTHING, user }, 1, ['first', line]);
}

test('a file of the run that is executed without the bit is named, with its mode and what to do', () => {
  for (const [mode, shown] of [
    [undefined, '0444'],
    ['0444', '0444'],
    ['644', '0644'],
  ] as const)
    assert.equal(
      hintOf(SCRIPT, mode),
      `The file '/job/run.sh' of the run has the mode ${shown}, without a bit to execute it: give it the mode 0555`,
    );
  assert.match(String(hintOf(SCRIPT, '0444', 126, { command: ['sh', '-c', 'exec /job/run.sh 1'] })), /0555$/);
});

test('a file of the run whose first line ends with CR LF is named', () => {
  assert.match(
    String(hintOf('#!/bin/sh\r\necho\r\n', '0555', 127)),
    /^The file '\/job\/run.sh' of the run has CR LF .*: save it with LF alone$/,
  );
});

test('files that can be executed, are not mentioned, or ended otherwise say nothing', () => {
  assert.equal(hintOf(SCRIPT, '0555'), null);
  assert.equal(hintOf('echo\r\n', '0555'), null);
  assert.equal(hintOf(SCRIPT, '0444', 1), null);
  assert.equal(hintOf(SCRIPT, '0444', 126, { command: ['/job/run.sh.bak'] }), null);
});

test('a program that may be root and was denied something is told of the user', () => {
  for (const user of [null, '0', '0:5'])
    for (const line of ['touch: /data/x: Permission denied', 'chown: x: Operation not permitted'])
      assert.match(String(hint(user, line)), /^If it ran as root: root has no capabilities here, .*`user`/);
  assert.equal(hint('1000', 'touch: /data/x: Permission denied'), null);
  assert.equal(hint(null, 'no such file'), null);
});
