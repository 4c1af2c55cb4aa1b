import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import fc from 'fast-check';
import { ordinaryUser, type OrdinaryUser } from '@longshore/worker/testing/ordinary-user';
import { MAX_OUTPUT_BYTES, outputsScript, parseOutputFrame } from './output-frame.js';

const folder = mkdtempSync(join(tmpdir(), 'longshore-frame-'));
const file = join(folder, 'output.json');

/** What the script prints about the file that `write` makes. */
function printed(write: () => void, as: Partial<OrdinaryUser> = {}): string {
  rmSync(file, { recursive: true, force: true });
  write();
  return execFileSync('sh', ['-c', outputsScript(file)], { ...as, maxBuffer: 8 * 2 ** 20 }).toString();
}

const user = ordinaryUser();
const isRoot = process.getuid?.() === 0;

const refusal = (why: string) => ({
  name: 'RunFault',
  message: `The run's output file cannot be used: ${why}`,
});

describe('the frame of the outputs', () => {
  afterAll(() => rmSync(folder, { recursive: true }));

  it('carries the file from the script to the parser', () => {
    const text = '{"a": [1, "ä"]}';
    assert.equal(textOf(printed(() => writeFileSync(file, text))), text);
    const largest = 'x'.repeat(MAX_OUTPUT_BYTES);
    assert.equal(textOf(printed(() => writeFileSync(file, largest))), largest);
  });

  it('tells a missing file from an empty one', () => {
    assert.equal(parseOutputFrame(printed(() => undefined)), null);
    assert.equal(textOf(printed(() => writeFileSync(file, ''))), '');
  });

  it('refuses a file that is too large, and prints nothing of it', () => {
    const log = printed(() => writeFileSync(file, Buffer.alloc(MAX_OUTPUT_BYTES + 1, 'x')));
    assert.equal(log.length < 100, true);
    assert.throws(
      () => parseOutputFrame(log),
      refusal('it has 1048577 bytes; the limit on Kubernetes is 1048576 bytes'),
    );
  });

  it('refuses a file of terabytes without content, by its size alone', () => {
    const log = printed(() => {
      writeFileSync(file, '');
      truncateSync(file, 8e12);
    });
    assert.throws(
      () => parseOutputFrame(log),
      refusal('it has 8000000000000 bytes; the limit on Kubernetes is 1048576 bytes'),
    );
  });

  it('refuses links and folders', () => {
    const irregular = refusal('it is no regular file');
    assert.throws(() => parseOutputFrame(printed(() => symlinkSync('/etc/passwd', file))), irregular);
    assert.throws(() => parseOutputFrame(printed(() => mkdirSync(file))), irregular);
  });

  it.skipIf(isRoot && typeof user === 'string')('refuses a file that cannot be read', () => {
    const log = printed(
      () => {
        writeFileSync(file, '{}');
        chmodSync(file, 0);
        chmodSync(folder, 0o755);
      },
      typeof user === 'string' ? {} : user,
    );
    assert.throws(() => parseOutputFrame(log), refusal('it cannot be read'));
  });

  it('is complete only with its last line and all of its bytes', () => {
    const log = printed(() => writeFileSync(file, JSON.stringify({ a: 'b'.repeat(500) })));
    fc.assert(
      fc.property(fc.nat(log.trimEnd().length - 1), (length) => {
        assert.equal(parseOutputFrame(log.slice(0, length)), undefined);
      }),
    );
    const lines = log.split('\n');
    assert.equal(parseOutputFrame([...lines.slice(0, 2), ...lines.slice(3)].join('\n')), undefined);
    assert.equal(parseOutputFrame(''), undefined);
  });

  it('carries every text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const bytes = Buffer.from(text);
        const base64 = bytes.toString('base64').replaceAll(/(.{76})/g, '$1\r\n');
        const frame = `longshore-outputs ${bytes.length}\r\n${base64}\r\nlongshore-end\r\n`;
        assert.equal(textOf(frame), bytes.toString());
      }),
    );
  });
});

function textOf(frame: string): string | undefined {
  return parseOutputFrame(frame)?.toString();
}
