import { get, invalid, JSON_HEADER, refused } from './edge-requests.js';
import type { HostileRequest } from './edge-requests.js';
import { requestText } from './raw-http.js';

/** Targets, methods, headers and whole requests that must be refused. */
export const HOSTILE_REQUESTS: readonly HostileRequest[] = [
  ...invalid('limit must be percent-encoded UTF-8 text', { 'a malformed query': get('/list?limit=%zz') }),
  ...invalid('image must be percent-encoded UTF-8 text', {
    'bad UTF-8 in a query': get('/list?image=%ff'),
    'a surrogate in a query': get('/list?image=%ed%a0%80'),
    'NUL in a query': get('/list?image=%00'),
  }),
  ...invalid('a query parameter has a name that is not percent-encoded UTF-8 text', {
    'NUL in a name': get('/list?a%00b=1'),
  }),
  ...refused(400, 'Malformed HTTP request', {
    'raw bytes in a query': get('/list?image=é'),
    'an unknown method': 'FROB /list HTTP/1.1\r\nHost: x\r\n\r\n',
    nonsense: 'hello\r\n\r\n',
    TLS: Uint8Array.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
    'HTTP/3.0': 'GET /list HTTP/3.0\r\nHost: x\r\n\r\n',
    'a space in the path': 'GET /a b HTTP/1.1\r\nHost: x\r\n\r\n',
    'a header with NUL': 'GET /list HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n',
    'a folded header': 'GET /list HTTP/1.1\r\nHost: x\r\n : y\r\n\r\n',
    'two lengths': requestText('POST', '/echo', {
      ...JSON_HEADER,
      'Content-Length': '1',
      'content-length': '2',
    }),
    'length and chunks': requestText('POST', '/echo', {
      ...JSON_HEADER,
      'Content-Length': '1',
      'Transfer-Encoding': 'chunked',
    }),
    'a negative length': requestText('POST', '/echo', { ...JSON_HEADER, 'Content-Length': '-1' }),
    'an unknown transfer coding': requestText('POST', '/echo', {
      ...JSON_HEADER,
      'Transfer-Encoding': 'gzip',
    }),
  }),
  ...invalid('limit must not be given more than once', {
    'a duplicate parameter': get('/list?limit=1&limit=1'),
  }),
  ...invalid('limit must not be empty', {
    'an empty value': get('/list?limit='),
    'no value': get('/list?limit'),
  }),
  ...invalid('nope is not a known query parameter', { 'an unknown parameter': get('/list?nope=1') }),
  ...invalid('created[foo] is not a known query parameter', {
    'an unknown operator': get('/list?created[foo]=1'),
  }),
  ...invalid('limit[a] is not a known query parameter', { 'a nested parameter': get('/list?limit[a]=1') }),
  ...invalid('__proto__ is not a known query parameter', {
    '__proto__ in a query': get('/list?__proto__=1'),
  }),
  ...invalid('hasOwnProperty is not a known query parameter', {
    'hasOwnProperty in a query': get('/list?hasOwnProperty=1'),
  }),
  ...invalid('limit must be an integer from 1 to 100', {
    'an integer with letters': get('/list?limit=1abc'),
  }),
  ...invalid('x is not a known query parameter', { 'a query on a route without any': get('/items/1?x=1') }),
  ...invalid('y is not a known query parameter', { 'a query beside a named one': get('/named?x=1&y=2') }),
  ...invalid('dry is not a known query parameter', {
    'a query on a POST': requestText('POST', '/echo?dry=1', JSON_HEADER, '{"image":"a"}'),
  }),
  ...refused(404, 'Not found', {
    'a malformed escape in a path': get('/items/%zz'),
    'bad UTF-8 in a path': get('/items/%ff'),
    'a surrogate in a path': get('/items/%ed%a0%80'),
    'NUL in a path': get('/items/a%00b'),
    'a dangling escape': get('/items/%'),
    'an unknown path': get('/nope'),
    'the root': get('/'),
    'two trailing slashes': get('/list//'),
    'another case': get('/List'),
    'a doubled slash': get('//list'),
    dots: get('/items/../list'),
    'OPTIONS *': requestText('OPTIONS', '*'),
    CONNECT: requestText('CONNECT', 'test:80'),
  }),
  ...refused(404, /^Not found: this path has only GET, not [A-Z]+$/, {
    OPTIONS: requestText('OPTIONS', '/list'),
    TRACE: requestText('TRACE', '/list'),
    'a wrong method': requestText('PUT', '/list'),
    'an odd method': requestText('PROPFIND', '/list'),
  }),
  ...refused(400, 'Host header is missing', { 'no Host': 'GET /list HTTP/1.1\r\n\r\n' }),
  ...refused(431, 'Request headers are too large', {
    'headers too large': requestText('GET', '/list', { 'X-Big': 'x'.repeat(17_000) }),
    'a path too large': get(`/items/${'x'.repeat(17_000)}`),
  }),
  ...refused(431, 'Too many request headers: at most 200', {
    '201 headers': `GET /list HTTP/1.1\r\nHost: x\r\n${'a:b\r\n'.repeat(200)}\r\n`,
    '3,000 headers and a key': `GET /list HTTP/1.1\r\nHost: x\r\n${'a:b\r\n'.repeat(3000)}X-API-Key: k\r\n\r\n`,
  }),
  ...refused(417, 'Expectation cannot be met', {
    'an odd expectation': requestText('GET', '/list', { Expect: 'magic' }),
  }),
];
