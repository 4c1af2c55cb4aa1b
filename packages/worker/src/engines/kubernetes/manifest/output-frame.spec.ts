import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import fc from 'fast-check';
import { ordinaryUser, type OrdinaryUser } from '../../../testing/ordinary-user.js';
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
    assert.deepEqual(parseOutputFrame(printed(() => writeFileSync(file, '{"a": [1, "ä"]}'))), {
      a: [1, 'ä'],
    });
    const text = 'x'.repeat(MAX_OUTPUT_BYTES - 8);
    const largest = printed(() => writeFileSync(file, `{"a":"${text}"}`));
    assert.equal(parseOutputFrame(largest)?.['a'], text);
  });

  it('tells of no outputs when the file is missing or empty', () => {
    assert.equal(parseOutputFrame(printed(() => undefined)), undefined);
    assert.equal(parseOutputFrame(printed(() => writeFileSync(file, ' \n'))), undefined);
  });

  it('refuses a file that is too large, and prints nothing of it', () => {
    const log = printed(() => writeFileSync(file, Buffer.alloc(MAX_OUTPUT_BYTES + 1, 'x')));
    assert.equal(log.length < 100, true);
    assert.throws(
      () => parseOutputFrame(log),
      refusal('it has 1048577 bytes; the limit on Kubernetes is 1048576 bytes'),
    );
  });

  it('refuses links, folders, and what is no JSON object', () => {
    const irregular = refusal('it is no regular file');
    assert.throws(() => parseOutputFrame(printed(() => symlinkSync('/etc/passwd', file))), irregular);
    assert.throws(() => parseOutputFrame(printed(() => mkdirSync(file))), irregular);
    assert.throws(
      () => parseOutputFrame(printed(() => writeFileSync(file, '[1]'))),
      refusal('it holds no JSON object'),
    );
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
        assert.equal(parseOutputFrame(log.slice(0, length)), null);
      }),
    );
    const lines = log.split('\n');
    assert.equal(parseOutputFrame([...lines.slice(0, 2), ...lines.slice(3)].join('\n')), null);
    assert.equal(parseOutputFrame(''), null);
  });

  it('carries every JSON object', () => {
    const object = fc.dictionary(
      fc.stringMatching(/^[a-z]{1,5}$/),
      fc.oneof(fc.string(), fc.integer(), fc.boolean()),
      {
        noNullPrototype: true,
      },
    );
    fc.assert(
      fc.property(object, (value) => {
        const bytes = Buffer.from(JSON.stringify(value));
        const base64 = bytes.toString('base64').replaceAll(/(.{76})/g, '$1\r\n');
        const parsed = parseOutputFrame(
          `longshore-outputs ${bytes.length}\r\n${base64}\r\nlongshore-end\r\n`,
        );
        assert.equal(JSON.stringify(parsed), JSON.stringify(value));
      }),
    );
  });
});
