import assert from 'node:assert/strict';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { NO_MASK, SecretMask, type MaskedJson } from '../secrets/secret-mask.js';
import { completedEvent, RunOutputs } from './run-outputs.js';

const LIMIT = 1000;

/** Outputs whose event has a body of so many bytes. */
function outputsOf(bodyBytes: number): JsonObject {
  const around = Buffer.byteLength(stringifyJson(completedEvent({ a: '' })));
  return { a: 'x'.repeat(bodyBytes - around) };
}

describe('the outputs of runs', () => {
  it('are refused without being parsed when their event is larger than the service takes', async () => {
    const outputs = new RunOutputs({ maxBodyBytes: LIMIT });
    const largest = outputsOf(LIMIT);
    assert.deepEqual((await outputs.read(Buffer.from(JSON.stringify(largest)), NO_MASK)).outputs, largest);
    await assert.rejects(outputs.read(Buffer.from(JSON.stringify(outputsOf(LIMIT + 1))), NO_MASK), {
      name: 'RunFault',
      message:
        /^The run's output file cannot be used: it has \d+ bytes without white space; the service takes/,
    });
    await assert.rejects(outputs.read(Buffer.from('no JSON '.repeat(LIMIT)), NO_MASK), /the service takes/);
  });

  it('are accepted whatever white space the file has between its tokens', async () => {
    const outputs = new RunOutputs({ maxBodyBytes: LIMIT });
    const object = { list: [1, 2], text: 'a  "quoted" \\ text' };
    const bytes = Buffer.from(JSON.stringify(object).replaceAll(',', `,\r\n\t${' '.repeat(LIMIT)}`));
    assert.ok(bytes.length > LIMIT);
    assert.deepEqual((await outputs.read(bytes, NO_MASK)).outputs, object);
    const blanks = Buffer.from(JSON.stringify({ text: ' '.repeat(LIMIT) }));
    await assert.rejects(outputs.read(blanks, NO_MASK), /the service takes/);
  });

  it('are accepted whatever their size while the limit is unknown', async () => {
    const object = outputsOf(10 * LIMIT);
    const bytes = Buffer.from(JSON.stringify(object));
    assert.deepEqual((await new RunOutputs({ maxBodyBytes: null }).read(bytes, NO_MASK)).outputs, object);
  });

  it('are undefined when the file is missing, empty or blank', async () => {
    const outputs = new RunOutputs({ maxBodyBytes: LIMIT });
    for (const file of [null, Buffer.alloc(0), Buffer.from(' \n'.repeat(LIMIT))]) {
      assert.equal((await outputs.read(file, NO_MASK)).outputs, undefined);
    }
  });

  it('are parsed and masked one after the other, also after one that is refused', async () => {
    let busy = 0;
    let most = 0;
    class WatchedMask extends SecretMask {
      override async jsonText(text: string): Promise<MaskedJson> {
        busy += 1;
        most = Math.max(most, busy);
        for (let turn = 0; turn < 5; turn++) await yieldToEventLoop();
        busy -= 1;
        return super.jsonText(text);
      }
    }
    const outputs = new RunOutputs({ maxBodyBytes: null });
    const mask = new WatchedMask(['secret']);
    const files = [`{"a":"secret"}`, '{', ...Array.from({ length: 4 }, (_, n) => `{"n":${n},"a":"secret"}`)];
    const all = await Promise.allSettled(files.map((file) => outputs.read(Buffer.from(file), mask)));
    assert.equal(most, 1);
    assert.deepEqual(
      all.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled', 'fulfilled', 'fulfilled', 'fulfilled'],
    );
    const last = all.at(-1);
    assert.deepEqual(last?.status === 'fulfilled' && last.value.outputs, { n: 3, a: '***' });
  });

  it('keep numbers and literals whatever the secrets are, and say which secret was masked where', async () => {
    const mask = new SecretMask(['true', '2026', '120265'], ['FLAG', 'YEAR', 'PIN']);
    const read = async (text: string) =>
      (await new RunOutputs({ maxBodyBytes: null }).read(Buffer.from(text), mask)) ?? {};
    const kept = await read('{"ok":true,"year":2026,"list":[120265,2026.5,null]}');
    assert.equal(stringifyJson(kept.outputs), '{"ok":true,"year":2026,"list":[120265,2026.5,null]}');
    assert.equal(kept.change, null);
    const masked = await read('{"a/b":[1,{"text":"is true in 2026"}],"n":2026,"2026 key":1}');
    assert.equal(stringifyJson(masked.outputs), '{"a/b":[1,{"text":"is *** in ***"}],"n":2026,"*** key":1}');
    assert.deepEqual(masked.change, {
      text:
        'The outputs were changed: the secrets of FLAG, YEAR are masked in /a~1b/1/text; ' +
        'the secret of YEAR is masked in a key of the outputs',
      details: {
        masked: [
          { path: '/a~1b/1/text', key: false, secrets: ['FLAG', 'YEAR'] },
          { path: '', key: true, secrets: ['YEAR'] },
        ],
        replaced: 0,
      },
    });
  });

  it('keep all members when keys become equal by masking', async () => {
    const mask = new SecretMask(['secret', 'hidden']);
    const read = async (text: string) =>
      stringifyJson((await new RunOutputs({ maxBodyBytes: null }).read(Buffer.from(text), mask)).outputs);
    assert.equal(await read('{"secret":1,"a":{"hidden":3},"hidden":2}'), '{"***":1,"a":{"***":3},"***-2":2}');
    assert.match(await read('{"secret":1,"***":2}'), /^\{"\*\*\*-[0-9a-f]{8}":1,"\*\*\*":2\}$/);
  });

  it('may begin with a byte order mark, in UTF-8 or UTF-16', async () => {
    const outputs = new RunOutputs({ maxBodyBytes: null });
    const text = '\uFEFF{"a":"é"}';
    const bigEndian = Buffer.from(text, 'utf16le').swap16();
    for (const file of [Buffer.from(text), Buffer.from(text, 'utf16le'), bigEndian]) {
      const read = await outputs.read(file, NO_MASK);
      assert.deepEqual([read.outputs, read.change], [{ a: 'é' }, null]);
    }
    assert.equal((await outputs.read(Buffer.from('\uFEFF \n'), NO_MASK)).outputs, undefined);
  });

  it('have U+FFFD for characters that cannot be stored, and say how many', async () => {
    const outputs = new RunOutputs({ maxBodyBytes: null });
    const file = Buffer.from(
      String.raw`{"k\u0000":"a\u0000b\ud800c\\u0000\ud83d\ude00\uDC00","é":"\u00e9�"}`,
    );
    const { outputs: read, change } = await outputs.read(file, NO_MASK);
    assert.deepEqual({ ...read }, { 'k\uFFFD': 'a\uFFFDb\uFFFDc\\u0000😀\uFFFD', é: 'é\uFFFD' });
    assert.match(String(change?.text), /: 4 characters that cannot be stored became U\+FFFD$/);
    const latin = await outputs.read(Buffer.from('{"a":"\xe9�"}', 'latin1'), NO_MASK);
    assert.match(String(latin.change?.text), /became U\+FFFD$/);
    assert.deepEqual(latin.change?.details['masked'], []);
  });

  it('keep all members when keys become equal by U+FFFD, and are refused when two were equal before', async () => {
    const escapes = Buffer.from(
      String.raw`{ "\u0000": 1, "\ud800": {"\u0000": 1, "a": 2}, "�": 3, "a": 4, "\udc00": 1e400 }`,
    );
    assert.equal(
      await textOf(escapes),
      '{"\uFFFD":1,"\uFFFD-2":{"\uFFFD":1,"a":2},"\uFFFD-3":3,"a":4,"\uFFFD-4":1e400}',
    );
    const invalid = Buffer.from('{"\xfe":1,"\xff":2,"\xff-2":3}', 'latin1');
    assert.equal(await textOf(invalid), '{"\uFFFD":1,"\uFFFD-2":2,"\uFFFD-2-2":3}');
    const utf16 = Buffer.from('\uFEFF{"\ud800":1,"\udc00":2}', 'utf16le');
    assert.equal(await textOf(utf16), '{"\uFFFD":1,"\uFFFD-2":2}');
    await assert.rejects(
      textOf(Buffer.from(String.raw`{"\ud800":1,"\udc00":2,"a":3,"a":4}`)),
      /duplicate key/,
    );
  });

  it('have at most one byte order mark: a file of many is refused', async () => {
    const file = Buffer.from(`${'\uFEFF'.repeat(11_000)}{"a":1}`);
    await assert.rejects(new RunOutputs({ maxBodyBytes: null }).read(file, NO_MASK), {
      name: 'RunFault',
      message: /byte order mark/,
    });
  });
});

/** The outputs of a file as they are sent. */
async function textOf(file: Buffer): Promise<string> {
  return stringifyJson((await new RunOutputs({ maxBodyBytes: null }).read(file, NO_MASK)).outputs);
}
