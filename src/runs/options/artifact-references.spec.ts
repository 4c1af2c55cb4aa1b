import assert from 'node:assert/strict';
import { jsonText, lazyObject } from '@longshore/common/json/json-text';
import { describe, test } from 'vitest';
import { replaceAddresses, replaceReferences } from './artifact-references.js';

const MIB = 2 ** 20;
function hide(text: string): string {
  return jsonText(replaceAddresses(lazyObject(text), () => ({ gone: true })));
}

function replace(text: string): string {
  return jsonText(replaceReferences(lazyObject(text), () => 'URL'));
}

describe('addresses in JSON', () => {
  test('are replaced where they are a whole text, at any depth, and numbers stay as they are written', () => {
    assert.equal(hide('{"a":["http://x/y?z"],"n":1.00}'), '{"a":[{"gone":true}],"n":1.00}');
    assert.equal(hide('{"a": "https://x" , "b":"no http://x"}'), '{"a": {"gone":true} , "b":"no http://x"}');
  });

  test('stay in names of members, and in quotation marks within a text', () => {
    for (const kept of [
      { 'http://x/y': 1 },
      { text: 'see "http://x/y?z" and "http://x"' },
      { json: JSON.stringify({ urls: ['http://x/y?z'], twice: JSON.stringify(['http://x']) }) },
      { 'say "http://x"': '"http://x' },
    ])
      assert.equal(hide(JSON.stringify(kept)), JSON.stringify(kept));
  });

  test('are found in one pass, whatever is there', () => {
    const long = JSON.stringify({ text: '"http:'.repeat(MIB / 8) });
    assert.ok(hide(long) === long);
  });
});

describe('references in JSON', () => {
  test('are replaced however they are written, and objects with other members stay', () => {
    assert.equal(
      replace(
        '{ "a" : { "$artifact" : {"run" : "r" , "name":"n" } }, "b":{"$artifact":"x"}, "c":{"$artifact":"x","d":1}}',
      ),
      '{ "a" : "URL", "b":"URL", "c":{"$artifact":"x","d":1}}',
    );
  });

  test('are found in one pass, whatever blanks there are', () => {
    const blanks = ' '.repeat(MIB);
    const long = `{"a":{"$artifact":{"run":"r"${blanks},"name":1}}}`;
    assert.ok(replace(long) === long);
  });
});
