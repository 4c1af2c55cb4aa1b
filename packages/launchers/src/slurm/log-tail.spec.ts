import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, test } from 'vitest';
import { tailLog, type LogEnd } from './log-tail.js';

const NEVER = new AbortController().signal;

describe('a log in the shared folder', () => {
  const folder = mkdtempSync(join(tmpdir(), 'longshore-log-tail-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test('is read up to the size of its exit record, also when that is seen before the bytes are', async () => {
    const path = join(folder, 'late');
    writeFileSync(path, 'one\n');
    let looks = 0;
    const text = await read(path, () => {
      looks += 1;
      if (looks === 2) appendFileSync(path, 'two\nand what comes behind the end');
      return { bytes: 8 };
    });
    assert.equal(text, 'one\ntwo\n');
  });

  test('is read while it grows', async () => {
    const path = join(folder, 'grows');
    let looks = 0;
    const text = await read(path, () => {
      looks += 1;
      appendFileSync(path, `${looks}\n`);
      return looks === 3 ? { bytes: 6 } : null;
    });
    assert.equal(text, '1\n2\n3\n');
  });

  test('ends for a job without an exit record, and one without a log', async () => {
    const path = join(folder, 'lost');
    writeFileSync(path, 'half a li');
    assert.equal(await read(path, () => ({ bytes: null })), 'half a li');
    assert.equal(await read(join(folder, 'none'), () => ({ bytes: null })), '');
  });
});

async function read(path: string, endOf: () => LogEnd): Promise<string> {
  const parts: Buffer[] = [];
  for await (const { bytes } of tailLog(path, () => Promise.resolve(endOf()), NEVER)) parts.push(bytes);
  return Buffer.concat(parts).toString();
}
