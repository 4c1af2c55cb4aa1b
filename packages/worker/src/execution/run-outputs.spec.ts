import assert from 'node:assert/strict';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { NO_MASK, SecretMask } from '../secrets/secret-mask.js';
import { completedEvent, RunOutputs } from './run-outputs.js';

const LIMIT = 1000;

/** Outputs whose event has a body of so many bytes. */
function outputsOf(bodyBytes: number): JsonObject {
  const around = Buffer.byteLength(stringifyJson(completedEvent({ a: '' })));
  return { a: 'x'.repeat(bodyBytes - around) };
}

describe('the outputs of runs', () => {
  it('are refused without being parsed when their event is larger than the service takes', async () => {
    const outputs = new RunOutputs(() => LIMIT);
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
    const outputs = new RunOutputs(() => LIMIT);
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
    assert.deepEqual((await new RunOutputs(() => null).read(bytes, NO_MASK)).outputs, object);
  });

  it('are undefined when the file is missing, empty or blank', async () => {
    const outputs = new RunOutputs(() => LIMIT);
    for (const file of [null, Buffer.alloc(0), Buffer.from(' \n'.repeat(LIMIT))]) {
      assert.equal((await outputs.read(file, NO_MASK)).outputs, undefined);
    }
  });

  it('are parsed and masked one after the other, also after one that is refused', async () => {
    let busy = 0;
    let most = 0;
    class WatchedMask extends SecretMask {
      override async jsonText(text: string): Promise<string> {
        busy += 1;
        most = Math.max(most, busy);
        for (let turn = 0; turn < 5; turn++) await yieldToEventLoop();
        busy -= 1;
        return super.jsonText(text);
      }
    }
    const outputs = new RunOutputs(() => null);
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

  it('cannot be used when two keys are values of secrets', async () => {
    const parsing = new RunOutputs(() => null).read(
      Buffer.from('{"secret":1,"hidden":2}'),
      new SecretMask(['secret', 'hidden']),
    );
    await assert.rejects(parsing, { name: 'RunFault', message: /two keys are values of secrets/ });
  });
});
