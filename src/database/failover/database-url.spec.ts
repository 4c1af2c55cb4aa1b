import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, it, vi } from 'vitest';
import { parseDatabaseUrl } from './database-url.js';

const folder = mkdtempSync(join(tmpdir(), 'database-url-'));
const NO_CERTIFICATE = join(folder, 'text.crt');
writeFileSync(NO_CERTIFICATE, 'no certificate');

afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => void vi.unstubAllEnvs());

/** User, password, database and servers, as text. */
function summary(url: string): string {
  const { user = '', password = '', database = '', servers } = parseDatabaseUrl(url);
  return `${user} ${password} ${database} ${servers.map(({ host, port }) => `${host}|${port}`).join(' ')}`;
}

function query(text: string): () => unknown {
  return () => parseDatabaseUrl(`postgres://u@h/d?${text}`);
}

describe('a database URL', () => {
  it('has every form that psql takes', () => {
    vi.stubEnv('PGHOST', 'from-variable');
    for (const [url, expected] of [
      ['postgres://u:p@h:1/d?sslmode=disable', 'u p d h|1'],
      ['postgresql://h', '   h|5432'],
      ['postgres://u:p%40:@h/d%2Fe', 'u p@: d/e h|5432'],
      ['postgres://u:p#+@h/d', 'u p#+ d h|5432'],
      ['postgres://u:p@/d?host=/var/run/postgresql', 'u p d /var/run/postgresql|5432'],
      ['postgres://u@:6000/d?host=%2Ftmp%2Fx', 'u  d /tmp/x|6000'],
      ['postgres:///d?host=h&port=2&user=u&password=p+q&dbname=e', 'u p+q e h|2'],
      ['postgres://u@%2Fvar%2Frun%2Fpostgresql/d', 'u  d /var/run/postgresql|5432'],
      ['postgres://u@[::1]:6002/d', 'u  d ::1|6002'],
      ['postgres://u@/d', 'u  d from-variable|5432'],
      ['postgres://', '   from-variable|5432'],
      [
        'postgres://u@h1:6001,[::1]:6002,h3/d?target_session_attrs=read-write',
        'u  d h1|6001 ::1|6002 h3|5432',
      ],
      ['postgres://u@x/d?host=/run/a,h2&port=6001', 'u  d /run/a|6001 h2|6001'],
      ['postgres://u@x/d?host=h1,h2&port=6001,6002', 'u  d h1|6001 h2|6002'],
    ] as const) {
      assert.equal(summary(url), expected, url);
    }
  });

  it('is refused when it is malformed or asks for what is not supported, without being shown', () => {
    for (const [url, reason] of [
      ['mysql://u:hunter2@h/d', /^the URL is malformed$/],
      ['postgres://u:hunter2@h:port/d', /malformed/],
      ['postgres://u:hunter2@h1,/d', /^a host is malformed$/],
      ['postgres://u:hunter2@h1,h2:0/d', /^a port is malformed$/],
      ['postgres://u:hunter2%zz@h/d', /^the URL is malformed: a character after %$/],
      ['postgres://u:hunter2@x/d?host=a,b,c&port=1,2', /^there are not as many ports as hosts$/],
      ['postgres://u:hunter2@h/d?target_session_attrs=prefer-standby', /any, primary, read-write$/],
      ['postgres://u:hunter2@h1,h2/d?load_balance_hosts=random', /^load_balance_hosts must be disable$/],
      ['postgres://u:hunter2@h/d?channel_binding=require', /^channel_binding must be prefer or disable$/],
      ['postgres://u:hunter2@h/d?requirepeer=root', /^the parameter requirepeer is not supported$/],
    ] as const) {
      assert.throws(() => parseDatabaseUrl(url), { name: 'TypeError', message: reason }, url);
    }
  });

  it('refuses unknown words of TLS, combinations that libpq refuses, and files that are missing or no certificate', () => {
    vi.stubEnv('HOME', folder);
    for (const [text, reason] of [
      [
        'sslmode=verify_full',
        /^sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full$/,
      ],
      ['sslmode=no-verify', /^sslmode must be one of/],
      ['sslmode=verify-ca', /^sslmode verify-ca needs a root certificate/],
      ['sslmode=verify-full', /^sslmode verify-full needs a root certificate/],
      ['sslmode=require&sslrootcert=system', /may not be used with sslrootcert=system/],
      ['sslmode=prefer&sslnegotiation=direct', /may not be used with sslnegotiation=direct/],
      [
        'sslmode=require&sslrootcert=/nowhere/ca.crt',
        /^sslrootcert \/nowhere\/ca.crt cannot be read: ENOENT$/,
      ],
      [`sslmode=require&sslrootcert=${NO_CERTIFICATE}`, /holds no certificate$/],
      ['sslcert=/nowhere/a.crt&sslkey=/nowhere/a.key', /^sslcert \/nowhere\/a.crt cannot be read: ENOENT$/],
      ['ssl_min_protocol_version=SSLv3', /^ssl_min_protocol_version must be one of/],
    ] as const) {
      assert.throws(query(text), { name: 'TypeError', message: reason }, text);
    }
    vi.stubEnv('PGSSLMODE', 'sometimes');
    assert.throws(query(''), /^TypeError: sslmode must be one of/);
    assert.doesNotThrow(query('sslmode=disable'), 'the URL wins over the variable');
    vi.stubEnv('PGSSLMODE', 'require');
    vi.stubEnv('PGSSLROOTCERT', '/nowhere/ca.crt');
    assert.throws(query(''), /sslrootcert \/nowhere\/ca.crt cannot be read/);
  });
});
