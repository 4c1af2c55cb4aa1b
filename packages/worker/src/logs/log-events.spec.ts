import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { LineJoiner, MAX_EVENT_LINE, parseLogEvent } from './log-events.js';

const EVENTS: [string, unknown][] = [
  ['{"type":"PROGRESS","msg":0}', { type: 'PROGRESS', msg: 0 }],
  ['{"type":"PROGRESS","msg":100}', { type: 'PROGRESS', msg: 100 }],
  ['  {"type":"STEP_2","msg":"two","level":"info"} \r', { type: 'STEP_2', msg: 'two' }],
  ['{"type":"NOTE","msg":"","payload":{"a":[1]}}', { type: 'NOTE', msg: '', payload: { a: [1] } }],
  ['{"type":"NOTE","msg":-7,"payload":null}', { type: 'NOTE', msg: -7 }],
  ['{"type":"NOTE","msg":"a\\u0000\\udc00"}', { type: 'NOTE', msg: 'a\uFFFD\uFFFD' }],
  [
    '{"type":"NOTE","msg":1,"payload":{"\\u0000":1,"�":2}}',
    { type: 'NOTE', msg: 1, payload: { '\uFFFD': 1, '\uFFFD-2': 2 } },
  ],
];

for (const [line, event] of EVENTS) {
  test(`reads an event: ${line.trim()}`, () => assert.deepEqual(parseLogEvent(line), event));
}

const OTHERS = [
  '',
  'plain text',
  'null',
  '[{"type":"NOTE","msg":"x"}]',
  '{"type":"NOTE"}',
  '{"msg":"x"}',
  '{"type":"NOTE","msg":null}',
  '{"type":"NOTE","msg":1.5}',
  '{"type":"NOTE","msg":true}',
  '{"type":"NOTE","msg":9007199254740993}',
  '{"type":"note","msg":"x"}',
  '{"type":"1NOTE","msg":"x"}',
  `{"type":"${'N'.repeat(65)}","msg":"x"}`,
  '{"type":"NOTE","msg":"x","payload":[1]}',
  '{"type":"NOTE","msg":"x","payload":"text"}',
  '{"type":"NOTE","msg":"x"',
  '{"type":"NOTE","msg":"x"} trailing',
  '{"type":"NOTE","type":"NOTE","msg":"x"}',
  '{"type":"PROGRESS","msg":101}',
  '{"type":"PROGRESS","msg":-1}',
  '{"type":"PROGRESS","msg":50.5}',
  '{"type":"PROGRESS","msg":"50"}',
  ...['SUBMITTED', 'STARTED', 'COMPLETED', 'FAILED', 'CANCELLED', 'RETRIED', 'RECLAIMED'].map((type) =>
    JSON.stringify({ type, msg: 'x', payload: { worker_id: 'w' } }),
  ),
];

for (const line of OTHERS) {
  test(`reads no event from: ${line.slice(0, 70)}`, () => assert.equal(parseLogEvent(line), null));
}

const line = (length: number): string => JSON.stringify({ type: 'NOTE', msg: 'x'.repeat(length) });

test('ignores lines beyond the limit', () => {
  const overhead = line(0).length;
  assert.notEqual(parseLogEvent(line(MAX_EVENT_LINE - overhead)), null);
  assert.equal(parseLogEvent(line(MAX_EVENT_LINE - overhead + 1)), null);
});

test('reads every valid event and ignores every other line', () => {
  const event = fc.record({
    type: fc.stringMatching(/^N[A-Z0-9_]{0,63}$/),
    msg: fc.oneof(fc.string(), fc.maxSafeInteger()),
    payload: fc.dictionary(fc.string(), fc.oneof(fc.integer(), fc.string(), fc.boolean())),
  });
  fc.assert(
    fc.property(event, (said) => {
      const text = JSON.stringify(said);
      const isStorable = !text.includes(String.raw`\u0000`);
      if (isStorable) assert.deepEqual(parseLogEvent(text), JSON.parse(text));
      else assert.equal(parseLogEvent(text)?.type, said.type);
    }),
  );
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.equal(parseLogEvent(text), null)));
});

test('a line is an event in its last state, after a bar of any length that was written over', () => {
  const joiner = new LineJoiner();
  const bar = '\r 50 % ####'.repeat(MAX_EVENT_LINE / 8);
  const event = '{"type":"NOTE","msg":"done"}';
  const joined = [
    joiner.add({ stream: 'stdout', text: bar, part: 'start' }),
    joiner.add({ stream: 'stdout', text: `${bar}\r`, part: 'rest' }),
    joiner.add({ stream: 'stdout', text: `\u001b[2K${event}`, part: 'end' }),
    joiner.add({ stream: 'stdout', text: `50 %\r${event}\r` }),
    joiner.add({ stream: 'stdout', text: `50 % ${event}` }),
  ].map((one) => one && [parseLogEvent(one.plain), one.isTooLong]);
  const read = { type: 'NOTE', msg: 'done' };
  assert.deepEqual(joined, [null, null, [read, false], [read, false], [null, false]]);
});
