import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import * as fc from 'fast-check';
import { InvalidRequest } from '../../errors/domain-error.js';
import { parseQuery } from './query-parser.js';

function linesOf(text: string): readonly string[] {
  try {
    parseQuery(text);
  } catch (error) {
    assert.ok(error instanceof InvalidRequest);
    return error.errors ?? [];
  }
  return assert.fail('was accepted');
}

describe('the query parser', () => {
  it('keeps names literal and decodes values', () => {
    assert.deepEqual(Object.entries(parseQuery('created[gte]=1&created%5Blt%5D=2&a=b+c%2B%C3%A9&q=x=y')), [
      ['created[gte]', '1'],
      ['created[lt]', '2'],
      ['a', 'b c+é'],
      ['q', 'x=y'],
    ]);
  });

  it('takes an empty query, and question marks in values', () => {
    assert.deepEqual(Object.entries(parseQuery('')), []);
    assert.deepEqual(Object.entries(parseQuery('a=1?b')), [['a', '1?b']]);
    assert.equal(Object.getPrototypeOf(parseQuery('')), null);
  });

  it('has no names of its own', () => {
    const query = parseQuery('__proto__=1&constructor=2');
    assert.equal(Object.getPrototypeOf(query), null);
    assert.deepEqual(Object.keys(query), ['__proto__', 'constructor']);
    assert.equal('toString' in query, false);
  });

  const refused: [text: string, line: string][] = [
    ['a=1&a=2', 'a must not be given more than once'],
    ['a=1&%61=2', 'a must not be given more than once'],
    ['__proto__=1&__proto__=2', '__proto__ must not be given more than once'],
    ['a', 'a must not be empty'],
    ['a=', 'a must not be empty'],
    ['=1&=2', '"" must not be given more than once'],
    ['a=%', 'a must be percent-encoded UTF-8 text'],
    ['a=%e2%82', 'a must be percent-encoded UTF-8 text'],
    ['a=%c0%80', 'a must be percent-encoded UTF-8 text'],
    ['a=%00', 'a must be percent-encoded UTF-8 text'],
    ['%ff=1', 'a query parameter has a name that is not percent-encoded UTF-8 text'],
    ['a=\u00e9', 'the query string must be percent-encoded'],
    ['a=\u0001', 'the query string must be percent-encoded'],
    ['a%0d%0aX=', '"a\\r\\nX" must not be empty'],
  ];
  for (const [text, line] of refused) {
    it(`refuses ${JSON.stringify(text)}`, () => assert.deepEqual(linesOf(text), [line]));
  }

  it('reads back what URLSearchParams writes', () => {
    const name = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\0'));
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(name, name), { selector: ([key]) => key }), (entries) => {
        const query = parseQuery(new URLSearchParams(entries).toString());
        assert.deepEqual(new Map(Object.entries(query)), new Map(entries));
      }),
    );
  });

  it('never throws anything but a refusal', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', '%', '0', 'f', '&', '=', '+', '[', '\0', 'é') }),
        (text) => {
          try {
            parseQuery(text);
          } catch (error) {
            assert.ok(error instanceof InvalidRequest);
          }
        },
      ),
    );
  });
});
