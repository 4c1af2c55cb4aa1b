import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { UnsupportedMediaType } from '../../errors/domain-error.js';
import { requireJson } from './request.guard.js';

describe('the media type of a body', () => {
  const taken = [
    'application/json',
    'APPLICATION/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json; charset = utf8',
    'application/json; profile="x y"; charset=utf-8',
  ];
  for (const type of taken) it(`may be ${type}`, () => requireJson(type, undefined));

  const refused = [
    undefined,
    '',
    'json',
    'text/json',
    'application/jsonp',
    'application/problem+json',
    'application/json, text/plain',
    'application/json; charset=utf-16',
    'application/json; charset=latin1',
    'application/json; charset=utf-8; charset=utf-16',
    'application/json; charset',
    'application/json; charset=',
    'application/json;',
    'application/json; =x',
    'multipart/form-data; boundary=x',
  ];
  for (const type of refused) {
    it(`may not be ${type}`, () => {
      assert.throws(() => requireJson(type, undefined), UnsupportedMediaType);
    });
  }

  it('may have no encoding', () => {
    requireJson('application/json', 'Identity');
    for (const encoding of ['gzip', 'br', 'deflate', 'identity, gzip', '']) {
      assert.throws(() => requireJson('application/json', encoding), UnsupportedMediaType);
    }
  });
});
