import { invalid, JSON_HEADER, nested, post, postBytes, postChunks, refused } from './edge-requests.js';
import type { HostileRequest } from './edge-requests.js';
import { MAX_BODY_BYTES } from '../app/http-edge-app.js';
import { requestText } from './raw-http.js';

/** Bodies that must be refused. */
export const HOSTILE_BODIES: readonly HostileRequest[] = [
  ...refused(400, 'Request body is empty', {
    'empty body': requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': '0' }),
    'no body': requestText('POST', '/echo', JSON_HEADER),
  }),
  ...refused(400, /^Malformed JSON body: syntax error at character \d+$/, {
    'cut JSON': post('{"image":'),
    JavaScript: post("{image:'a'}"),
    'two documents': post('{"image":"a"}{}'),
    NaN: post('{"image":"a","priority":NaN}'),
    'raw NUL': post('{"image":"a\0"}'),
  }),
  ...refused(400, /^Malformed JSON body: NUL/, {
    'escaped NUL': post('{"image":"a\\u0000"}'),
    'NUL in a key': post('{"image":"a","inputs":{"\\u0000":1}}'),
  }),
  ...refused(400, /^Malformed JSON body: NUL character or lone surrogate/, {
    'lone surrogate': post('{"image":"a","inputs":{"x":["\\ud800"]}}'),
  }),
  ...refused(400, 'Malformed JSON body: starts with a byte order mark', {
    'byte order mark': post('\ufeff{"image":"a"}'),
  }),
  ...refused(400, 'Malformed JSON body: not valid UTF-8', {
    'invalid UTF-8': postBytes('{"image":"', [0xff], '"}'),
    'overlong UTF-8': postBytes('{"image":"', [0xc0, 0xaf], '"}'),
    'surrogate in UTF-8': postBytes('{"image":"', [0xed, 0xa0, 0x80], '"}'),
    'UTF-16': postBytes([0xff, 0xfe, 0x7b, 0, 0x7d, 0]),
  }),
  ...refused(400, /^Malformed JSON body: more than 64 levels/, {
    '65 levels': post(nested(65)),
    '2000 levels': post(`${'['.repeat(2000)}${']'.repeat(2000)}`),
  }),
  ...refused(400, /^Malformed JSON body: duplicate key/, {
    'duplicate key': post('{"image":"a","image":"b"}'),
    'duplicate key, escaped': post('{"image":"a","inputs":{"k":1,"\\u006b":2}}'),
  }),
  ...invalid('priority must be an integer from 0 to 100', {
    'unsafe integer': post('{"image":"a","priority":9007199254740993}'),
    overflow: post('{"image":"a","priority":1e400}'),
    'vanishing number': post('{"image":"a","priority":1e-400}'),
    'a wrong number': post('{"image":"a","priority":1.5}'),
    'a numeric string': post('{"image":"a","priority":"1"}'),
  }),
  ...invalid('the body must be a JSON object', {
    'a list': post('[]'),
    null: post('null'),
    'a string': post('"x"'),
  }),
  ...invalid('image is required', { 'a missing field': post('{}') }),
  ...invalid('image must be a string of 1 to 10 characters', { 'a wrong type': post('{"image":1}') }),
  ...invalid('nope is not a known field', { 'an unknown field': post('{"image":"a","nope":1}') }),
  ...invalid('__proto__ is not a known field', {
    ['__proto__']: post('{"image":"a","__proto__":{"priority":1}}'),
  }),
  ...invalid('constructor is not a known field', {
    constructor: post('{"image":"a","constructor":{"prototype":{}}}'),
  }),
  ...invalid('inputs must be an object', { 'a list for an object': post('{"image":"a","inputs":[]}') }),
  ...refused(415, /application\/json/, {
    'no content type': requestText('POST', '/echo', {}, '{"image":"a"}'),
    'a form': post('image=a', { 'Content-Type': 'application/x-www-form-urlencoded' }),
    'plain text': post('{"image":"a"}', { 'Content-Type': 'text/plain' }),
    'JSON with suffix': post('{"image":"a"}', { 'Content-Type': 'application/problem+json' }),
    'another charset': post('{"image":"a"}', { 'Content-Type': 'application/json; charset=utf-16' }),
    'Latin-1': post('{"image":"a"}', { 'Content-Type': 'application/json; charset=iso-8859-1' }),
    'a broken content type': post('{"image":"a"}', { 'Content-Type': 'application/json; ;=' }),
    '415 before 400': post('{', { 'Content-Type': 'text/plain' }),
  }),
  ...refused(415, /encoding/, { gzip: post('{"image":"a"}', { 'Content-Encoding': 'gzip' }) }),
  ...refused(413, `Request body is larger than ${MAX_BODY_BYTES} bytes`, {
    'a body too large': post(`{"image":"${'a'.repeat(MAX_BODY_BYTES)}"}`),
  }),
  ...refused(413, /larger/, {
    '413 before 415': post('x'.repeat(MAX_BODY_BYTES + 1), { 'Content-Type': 'text/plain' }),
    'too large without use': requestText('POST', '/items/1/act', {}, 'x'.repeat(MAX_BODY_BYTES + 1)),
    'too large on GET': requestText('GET', '/items/1', {}, 'x'.repeat(MAX_BODY_BYTES + 1)),
    'chunked too large': postChunks(`2000\r\n${'x'.repeat(0x2000)}\r\n0\r\n\r\n`),
  }),
  ...refused(401, 'Missing API key', {
    '401 before 413': post('x'.repeat(MAX_BODY_BYTES + 1), { 'X-Deny': '1' }),
    '401 before 415': post('x', { 'X-Deny': '1', 'Content-Type': 'x' }),
    '401 before 400': requestText('GET', '/list?nope', { 'X-Deny': '1' }),
  }),
  ...refused(400, 'Malformed HTTP request', { 'a malformed chunk': postChunks(`zz\r\nx\r\n`) }),
];
