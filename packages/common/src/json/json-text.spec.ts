import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { inspect } from 'node:util';
import fc from 'fast-check';
import {
  changeable,
  composeJson,
  jsonText,
  lazyJson,
  lazyObject,
  literalsOf,
  memberText,
  memberTexts,
  parseJson,
  readExactly,
  stringifyJson,
} from './json-text.js';
import { isJsonObject } from './json-value.js';

describe('JSON with its text', () => {
  it('prints the text wherever the value is in another one', () => {
    const text = '{"2":1.0,"1":[1e400,{"toJSON":12345678901234567890}],"a":"\\u0000"}';
    const value = lazyJson(text);
    assert.equal(
      stringifyJson({ a: value, list: [value, 'x', value], b: '\u0000' }),
      `{"a":${text},"list":[${text},"x",${text}],"b":"\\u0000"}`,
    );
    assert.equal(stringifyJson(value), text);
    assert.equal(stringifyJson(lazyJson('[1.0]')), '[1.0]');
    assert.equal(jsonText({ value }), `{"value":${text}}`);
  });

  it('reads as the plain value, before and after it is printed', () => {
    fc.assert(
      fc.property(
        fc.object({ key: fc.oneof(fc.string(), fc.constant('toJSON')) }),
        fc.boolean(),
        (given, print) => {
          const text = JSON.stringify(given);
          const value = lazyJson(text);
          const plain: unknown = JSON.parse(text);
          if (print) assert.equal(stringifyJson([value]), `[${text}]`);
          assert.deepEqual(value, plain);
          assert.equal(JSON.stringify(value), text);
          assert.equal(inspect(value), inspect(plain));
          assert.deepEqual({ ...Object(value) }, { ...Object(plain) });
        },
      ),
    );
    const list = lazyJson('[1,2,[3.0]]');
    assert.ok(Array.isArray(list));
    assert.deepEqual(list, [1, 2, [3]]);
    assert.deepEqual([list.length, list.map((item) => item)], [3, [1, 2, [3]]]);
    assert.equal(inspect(list), '[ 1, 2, [ 3 ] ]');
    for (const scalar of ['1', '"x"', 'null', 'true']) assert.equal(lazyJson(scalar), JSON.parse(scalar));
  });

  it('prints exactly in parts of it, too', () => {
    const value = lazyObject('{ "n": {"x": 1.0, "y": [1795358081062000000]}, "plain": {"a": 1} }');
    assert.equal(stringifyJson({ n: value['n'] }), '{"n":{"x":1.0,"y":[1795358081062000000]}}');
    assert.equal(stringifyJson(value['plain']), '{"a":1}');
    assert.deepEqual({ ...value }, { n: { x: 1, y: [1795358081062000000] }, plain: { a: 1 } });
  });

  it('cannot be changed, because its text would stay', () => {
    const value = lazyObject('{"a":1}');
    assert.throws(() => (value['a'] = 2), TypeError);
    assert.throws(() => delete value['a'], TypeError);
    assert.throws(() => Object.defineProperty(value, 'b', { value: 1 }), TypeError);
    assert.equal(stringifyJson(value), '{"a":1}');
  });

  it('is an object only where the text is that of one', () => {
    assert.equal(stringifyJson(lazyObject('{"n":1.0}')), '{"n":1.0}');
    for (const text of ['[1.0]', '1', 'null']) assert.throws(() => lazyObject(text), TypeError);
  });

  it('keeps digits beside what bodies of requests must not have', () => {
    const deep = `${'['.repeat(100)}1.0${']'.repeat(100)}`;
    const text = `{"deep":${deep},"a":"\\u0000","\\u0031":[2.0],"twice":1,"twice":1.0}`;
    const value = parseJson(text);
    assert.equal(stringifyJson({ value }), `{"value":${text}}`);
    assert.deepEqual({ ...Object(value) }, JSON.parse(text));
  });

  it('gives the text of each member, in order', () => {
    const members: [string, string][] = [
      ['9', '1e400'],
      ['1', '{"a":[1.0]}'],
      ['__proto__', '"\\n"'],
    ];
    const composed = composeJson(members);
    assert.equal(jsonText(composed), '{"9":1e400,"1":{"a":[1.0]},"__proto__":"\\n"}');
    assert.deepEqual([...memberTexts(composed)], members);
    assert.deepEqual([...memberTexts({ a: [lazyJson('[1.0]')] })], [['a', '[[1.0]]']]);
    assert.deepEqual(
      [...memberTexts(Object(readExactly('[1.0, 2]')))],
      [
        ['0', '1.0'],
        ['1', '2'],
      ],
    );
    assert.equal(stringifyJson(composeJson([])), '{}');
  });

  it('gives an object that may be changed, with exact members', () => {
    const text = '{"n":12345678901234567891,"m":2.0,"__proto__":[1.0],"plain":{"a":1},"x":1.50}';
    const value = changeable(readExactly(text));
    assert.ok(isJsonObject(value));
    assert.deepEqual(value, Object(readExactly(text)));
    value['m'] = 3;
    value['tenant'] = 'a';
    delete value['x'];
    assert.deepEqual([...(literalsOf(value) ?? [])], [['n', '12345678901234567891']]);
    assert.equal(memberText(value, 'n'), '12345678901234567891');
    assert.equal(memberText(value, '__proto__'), '[1.0]');
    assert.equal(memberText(value, 'm'), '3');
    assert.equal(memberText(value, 'tenant'), '"a"');
    assert.equal(memberText(value, 'x'), undefined);
    const plain = { a: 1 };
    assert.equal(changeable(plain), plain);
    assert.deepEqual([changeable([1]), changeable(null)], [[1], null]);
  });
});
