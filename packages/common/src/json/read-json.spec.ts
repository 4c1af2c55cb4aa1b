import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, it } from 'vitest';
import { stringifyJson } from './json-text.js';
import { JsonRefused, readJson, type JsonRefusal } from './read-json.js';

function read(text: string, maxDepth?: number): unknown {
  return readJson(Buffer.from(text), maxDepth);
}

/** Why the bytes are refused, or undefined when they are taken. */
function refusalOf(bytes: Uint8Array): JsonRefusal | undefined {
  try {
    readJson(bytes);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof JsonRefused, String(error));
    return error.reason;
  }
}

/** Whether a value survives, found by walking it. */
function isKeepable(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return !value.includes('\0') && value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  return (
    depth < 64 && Object.entries(value).every(([key, item]) => isKeepable(key) && isKeepable(item, depth + 1))
  );
}

/** Bytes of the heap that a value keeps. */
function retainedBy(make: () => unknown): number {
  gc?.();
  const before = process.memoryUsage();
  const value = make();
  gc?.();
  const after = process.memoryUsage();
  assert.notEqual(value, undefined);
  return after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
}

const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
const nestedObjects = (levels: number): string => '{"a":'.repeat(levels) + '1' + '}'.repeat(levels);

describe('reading JSON', () => {
  const taken = [
    'null',
    'true',
    ' 1 ',
    '"x"',
    '[]',
    '{}',
    '0',
    '-0',
    '0.0',
    '0e5',
    '0.000e-999',
    '1.5',
    '9007199254740991',
    '-9007199254740991',
    '9007199254740991.0',
    '0.1234567890123456789',
    '1e15',
    '1E+2',
    '1e-300',
    '5e-324',
    '123456789012345.6',
    '{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}',
    '{"a":{},"b":{}}',
    '["a","a",{"a":"a"},"a"]',
    '"\\ud83d\\ude00"',
    '"\\\\u0000"',
    '"\\"\\\\\\""',
    '{"\\"":1,"\\\\":2}',
    '{"a\\n":1,"a":2}',
    '"€ 😀 \\u00e9"',
    nested(64),
    nestedObjects(64),
    `[${nested(63)},${nested(63)}]`,
  ];
  for (const text of taken) {
    it(`takes ${text.slice(0, 40)}`, () => assert.deepEqual(read(text), JSON.parse(text)));
  }

  const refused: [reason: JsonRefusal, text: string][] = [
    ['syntax', ''],
    ['syntax', ' '],
    ['syntax', '{'],
    ['syntax', '{a:1}'],
    ['syntax', 'undefined'],
    ['syntax', '"\0"'],
    ['syntax', '['.repeat(100_000)],
    ['encoding', '\ufeff{}'],
    ['depth', nested(65)],
    ['depth', nestedObjects(65)],
    ['depth', `${'{"a":['.repeat(33)}1${']}'.repeat(33)}`],
    ['depth', nested(200_000)],
    ['duplicate-key', '{"a":1,"a":1}'],
    ['duplicate-key', '{"a":1,"b":{"c":1,"c":2}}'],
    ['duplicate-key', '{"b":{"a":1},"a":[{"a":1}],"b":1}'],
    ['duplicate-key', '{"a":1,"\\u0061":2}'],
    ['duplicate-key', '{"\\u0061":1,"a":2}'],
    ['duplicate-key', '{"":1,"":2}'],
    ['duplicate-key', '{"__proto__":1,"__proto__":2}'],
    ['duplicate-key', `{${Array.from({ length: 40 }, (_, n) => `"k${n % 39}":0`).join(',')}}`],
    ['duplicate-key', '[{"a":[1,{"x":"}"}],"b" : 2 , "a" : 3}]'],
    ['number', '9007199254740993'],
    ['number', '-9007199254740993.0'],
    ['number', '1e400'],
    ['number', '-1e-400'],
    ['number', '9'.repeat(5000)],
    ['number', `[${'9'.repeat(1001)}]`],
    ['number', `[0.${'1'.repeat(999)}]`],
    ['number', `[1e${'0'.repeat(999)}]`],
    ['text', '"\\u0000"'],
    ['text', '"a\\u0000b"'],
    ['text', '"\\\\\\u0000"'],
    ['text', '"\\ud800"'],
    ['text', '"\\uDFFF"'],
    ['text', '"\\ude00\\ud83d"'],
    ['text', '{"a\\u0000":1}'],
    ['text', '{"\\ud800":1}'],
    ['text', '[[["\\n","\\ud83dx"]]]'],
  ];
  for (const [reason, text] of refused) {
    it(`refuses ${reason}: ${JSON.stringify(text.slice(0, 40))}`, () => {
      assert.equal(refusalOf(Buffer.from(text)), reason);
    });
  }

  const badBytes: [title: string, bytes: number[]][] = [
    ['a stray continuation byte', [0x22, 0x80, 0x22]],
    ['an overlong form', [0x22, 0xc0, 0x80, 0x22]],
    ['a surrogate in UTF-8', [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ['a cut sequence', [0x22, 0xe2, 0x82]],
    ['beyond Unicode', [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]],
    ['UTF-16', [0xff, 0xfe, 0x7b, 0x00, 0x7d, 0x00]],
  ];
  for (const [title, bytes] of badBytes) {
    it(`refuses ${title}`, () => assert.equal(refusalOf(Uint8Array.from(bytes)), 'encoding'));
  }

  it('keeps __proto__ and constructor as plain own keys', () => {
    const value = read('{"__proto__":{"x":1},"constructor":2}');
    assert.deepEqual(Object.keys(Object(value)), ['__proto__', 'constructor']);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.equal(JSON.stringify(value), '{"__proto__":{"x":1},"constructor":2}');
  });

  it('says where, and echoes nothing of the text', () => {
    assert.throws(() => read('{"secret":1,"secret":2}'), { message: 'duplicate key at character 13' });
    assert.throws(() => read('{"secret'), { message: 'syntax error at character 2' });
    assert.throws(() => read('[[[1]]]', 2), { message: 'more than 2 levels at character 3' });
  });

  it('takes numbers of 1,000 characters, and says where a longer one is', () => {
    const longest = `{"a":[${'9'.repeat(1000)},-0.${'1'.repeat(997)},1e999999]}`;
    assert.equal(stringifyJson(read(longest)), longest);
    const place = `{ "a": ["x", {"b/c": "}"}, {"\\u0064": "k", "b/c" : [0, ${'9'.repeat(1001)}]}] }`;
    assert.throws(() => read(place), {
      message: 'number of more than 1,000 characters in /a/2/b~1c/1 at character 56',
    });
    assert.throws(() => read('9'.repeat(5000)), {
      message: 'number of more than 1,000 characters at character 1',
    });
  });

  it('reads numbers as the nearest double that is finite and, unless they are zero, not zero', () => {
    assert.deepEqual(read('[1795358081062000000,1.0,0e5,1e400,-1e400,1e-400,-1e-400,-0.0]'), [
      1795358081062000000,
      1,
      0,
      Number.MAX_VALUE,
      -Number.MAX_VALUE,
      Number.MIN_VALUE,
      -Number.MIN_VALUE,
      -0,
    ]);
  });

  it('reads a view into a larger buffer', () => {
    const whole = Buffer.from('xx{"a":1}yy');
    assert.deepEqual(readJson(whole.subarray(2, 9)), { a: 1 });
  });

  it('stays linear on texts made to be slow', () => {
    const texts = [
      `"${'\\\\'.repeat(500_000)}"`,
      `"${'\\"'.repeat(500_000)}"`,
      `[${'"",'.repeat(300_000)}"\\n"]`,
      `[${'{},'.repeat(300_000)}{}]`,
      `{${Array.from({ length: 100_000 }, (_, n) => `"${n}":0`).join(',')}}`,
    ];
    // Quadratic code would take longer than a test may.
    for (const text of texts) read(text);
  });
});

describe('memory of JSON whose numbers or keys must keep their text', () => {
  for (const [title, member] of [
    ['lists', '[1.0]'],
    ['lists in lists', `${'['.repeat(60)}1.0${']'.repeat(60)}`],
    ['objects', '{"2":1,"1":2}'],
  ] as const) {
    it(`is a few times the text: ${title}`, () => {
      const text = `{"inputs":{"all":[${Array.from({ length: 600_000 / member.length }, () => member).join()}]}}`;
      const bytes = retainedBy(() => read(text));
      assert.ok(bytes < 10 * text.length, `${Math.round(bytes / text.length)} times the text`);
    });
  }
});

describe('reading JSON, against a slow and plain check', () => {
  it('agrees on any value written by JSON.stringify', () => {
    const values = fc.jsonValue({
      maxDepth: 6,
      stringUnit: fc.oneof(
        fc.constantFrom('"', '\\', '\0', '\ud800', 'é', '😀', '\n'),
        fc.string({ minLength: 1, maxLength: 1 }),
      ),
    });
    fc.assert(
      fc.property(values, (value) => {
        const text = JSON.stringify(value);
        const expected: unknown = JSON.parse(text);
        if (isKeepable(expected)) assert.deepEqual(read(text), expected);
        else assert.notEqual(refusalOf(Buffer.from(text)), undefined);
      }),
      { numRuns: 2000 },
    );
  });

  /** An object's text with the keys as given, each perhaps written with escapes. */
  const written = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'ab', '"', '__proto__', ''), fc.boolean()), {
    maxLength: 12,
  });

  it('agrees on repeated keys, however they are written', () => {
    fc.assert(
      fc.property(written, (entries) => {
        const parts = entries.map(([key, escape]) => {
          const name = escape
            ? `"${Array.from(key, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
            : JSON.stringify(key);
          return `${name} : [ {"a":1}, "a" ]`;
        });
        const repeated = new Set(entries.map(([key]) => key)).size < entries.length;
        assert.equal(refusalOf(Buffer.from(`{${parts.join(', ')}}`)), repeated ? 'duplicate-key' : undefined);
      }),
      { numRuns: 1000 },
    );
  });

  it('keeps number literals and the order of keys', () => {
    const digits = fc.stringMatching(/^(0|[1-9][0-9]{0,24})$/);
    const literal = fc
      .tuple(
        fc.constantFrom('', '-'),
        digits,
        fc.option(fc.stringMatching(/^[0-9]{1,25}$/)),
        fc.option(fc.integer({ min: -420, max: 420 })),
      )
      .map(
        ([sign, whole, fraction, exponent]) =>
          `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`,
      );
    const key = fc.oneof(
      fc.constantFrom('__proto__', 'toJSON', 'constructor', '4294967294', '4294967295', '01', '-1', 'é', '"'),
      fc.nat({ max: 20 }).map(String),
      fc.string(),
    );
    const { text } = fc.letrec<{ text: string }>((tie) => ({
      text: fc.oneof(
        { maxDepth: 5 },
        literal,
        fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
        fc.array(tie('text'), { maxLength: 4 }).map((items) => `[${items.join()}]`),
        fc
          .uniqueArray(fc.tuple(key, tie('text')), { maxLength: 5, selector: ([name]) => name })
          .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join()}}`),
      ),
    }));
    fc.assert(
      fc.property(text, fc.constantFrom('', ' ', '\n\t'), (member, space) => {
        fc.pre(isKeepable(JSON.parse(member)));
        const value = read(`{${space}"a"${space}:${space}${member}${space}}`);
        assert.equal(stringifyJson({ value }), `{"value":{"a":${member}}}`);
      }),
      { numRuns: 3000 },
    );
  });

  it('never throws anything but a refusal on arbitrary bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        refusalOf(bytes);
      }),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom(...'{}[]":,\\u01e-.a '),
          maxLength: 30,
        }),
        (text) => {
          refusalOf(Buffer.from(text));
        },
      ),
      { numRuns: 5000 },
    );
  });
});
