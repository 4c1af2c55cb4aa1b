import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { parseDatabaseUrl } from './database-url.js';

describe('a database URL', () => {
  it('of one server is left to the driver', () => {
    for (const url of [
      'postgres://u:p@h:1/d?sslmode=disable',
      'postgresql://u@localhost/d?host=%2Ftmp%2Fx',
    ]) {
      assert.deepEqual(parseDatabaseUrl(url), { url, servers: [], needsWrites: false });
    }
  });

  it('names its servers in order, with the default port', () => {
    assert.deepEqual(
      parseDatabaseUrl(
        'postgres://u:p%40@h1:6001,[::1]:6002,h3/d?target_session_attrs=read-write&sslmode=disable',
      ),
      {
        url: 'postgres://u:p%40@h1:6001/d?sslmode=disable',
        servers: [
          { host: 'h1', port: 6001 },
          { host: '::1', port: 6002 },
          { host: 'h3', port: 5432 },
        ],
        needsWrites: true,
      },
    );
  });

  it('takes hosts and ports from parameters, one port for all or one for each', () => {
    const { servers, url } = parseDatabaseUrl('postgres://u@x/d?host=/run/a,h2&port=6001');
    assert.deepEqual(servers, [
      { host: '/run/a', port: 6001 },
      { host: 'h2', port: 6001 },
    ]);
    assert.equal(url, 'postgres://u@x/d?host=%2Frun%2Fa&port=6001');
    assert.deepEqual(
      parseDatabaseUrl('postgres://u@x/d?host=h1,h2&port=6001,6002').servers.map(({ port }) => port),
      [6001, 6002],
    );
  });

  it('of one server may ask for writes', () => {
    assert.deepEqual(parseDatabaseUrl('postgres://u@h/d?target_session_attrs=read-write'), {
      url: 'postgres://u@h/d',
      servers: [],
      needsWrites: true,
    });
  });

  it('is refused when it is malformed or asks for what is not supported, without being shown', () => {
    for (const [url, reason] of [
      ['mysql://u:hunter2@h/d', /^the URL is malformed$/],
      ['postgres://u:hunter2@h:port/d', /malformed/],
      ['postgres://u:hunter2@h1,/d', /^a host is malformed$/],
      ['postgres://u:hunter2@h1,h2:0/d', /^a port is malformed$/],
      ['postgres://u:hunter2@x/d?host=a,b,c&port=1,2', /^there are not as many ports as hosts$/],
      ['postgres://u:hunter2@h/d?target_session_attrs=prefer-standby', /any, primary, read-write$/],
      ['postgres://u:hunter2@h1,h2/d?load_balance_hosts=random', /^load_balance_hosts must be disable$/],
    ] as const) {
      assert.throws(() => parseDatabaseUrl(url), { name: 'TypeError', message: reason }, url);
    }
  });
});
