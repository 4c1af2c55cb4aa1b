import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { appendFile, chmod, chown, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, it, vi } from 'vitest';
import { connectDatabase } from '../../../src/database/connect.js';
import { rows } from '../../../src/database/sql/sql.js';
import { freePort } from '../../support/programs/free-port.js';
import { skipFor } from '../../support/skip.js';
import { makeTestDirectory } from '../../support/test-cluster.js';

const run = promisify(execFile);
const BIN = '/usr/lib/postgresql/15/bin';
const MISSING =
  existsSync(`${BIN}/psql`) && process.getuid?.() === 0 ? false : 'no PostgreSQL 15 of Debian, or not root';

/** A server of Debian with a certificate of its own CA for `localhost`; the databases say who may come in. */
class TlsServer {
  private constructor(
    readonly directory: string,
    readonly port: number,
  ) {}

  static async start(): Promise<TlsServer> {
    const directory = await makeTestDirectory('tls-');
    const server = new TlsServer(directory, await freePort());
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, 'postgres'])).stdout)),
    );
    const openssl = (line: string): Promise<unknown> => run('openssl', line.split(' '), { cwd: directory });
    const newKey = 'req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
    for (const name of ['ca', 'other']) {
      await openssl(`${newKey} -x509 -days 2 -subj /CN=${name} -keyout ${name}.key -out ${name}.crt`);
    }
    await openssl(`${newKey} -subj /CN=localhost -keyout server.key -out server.csr`);
    await writeFile(server.path('names'), 'subjectAltName=DNS:localhost\n');
    await openssl(
      'x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt',
    );
    for (const name of ['server.key', 'server.crt']) await chown(server.path(name), uid ?? 0, gid ?? 0);
    await chmod(server.path('server.key'), 0o600);
    await chown(directory, uid ?? 0, gid ?? 0);
    const as = { uid: uid ?? 0, gid: gid ?? 0, cwd: directory };
    const data = server.path('data');
    await run(`${BIN}/initdb`, ['-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync'], as);
    await writeFile(
      join(data, 'pg_hba.conf'),
      `local all all trust
host postgres all 127.0.0.1/32 trust
hostssl only_tls all 127.0.0.1/32 trust
hostnossl only_plain all 127.0.0.1/32 trust
`,
    );
    await appendFile(
      join(data, 'postgresql.conf'),
      `port = ${server.port}
listen_addresses = '127.0.0.1'
unix_socket_directories = '${directory}'
fsync = off
ssl = on
ssl_cert_file = '${server.path('server.crt')}'
ssl_key_file = '${server.path('server.key')}'
`,
    );
    await run(`${BIN}/pg_ctl`, ['-D', data, '-w', '-l', server.path('log'), 'start'], as);
    for (const name of ['only_tls', 'only_plain']) await server.sql(`create database ${name}`);
    return server;
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  url(database: string, query: string, host = 'localhost'): string {
    return `postgres://postgres@${host}:${this.port}/${database}?${query}`;
  }

  async sql(text: string): Promise<void> {
    await run(`${BIN}/psql`, [
      `postgres://postgres@/postgres?host=${this.directory}&port=${this.port}`,
      '-c',
      text,
    ]);
  }

  async stop(): Promise<void> {
    const [uid = 0, gid = 0] = await Promise.all(
      ['-u', '-g'].map(async (flag) => Number((await run('id', [flag, 'postgres'])).stdout)),
    );
    await run(`${BIN}/pg_ctl`, ['-D', this.path('data'), '-m', 'immediate', 'stop'], {
      uid,
      gid,
      cwd: this.directory,
    });
    await rm(this.directory, { recursive: true, force: true });
  }
}

const ASK = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()';

/** What psql gets with a URL: `tls`, `plain` or `refused`. */
async function byPsql(url: string): Promise<string> {
  return run(`${BIN}/psql`, [url, '-Atc', ASK]).then(
    ({ stdout }) => (stdout.trim() === 't' ? 'tls' : 'plain'),
    () => 'refused',
  );
}

/** The same of the service. */
async function byService(url: string): Promise<string> {
  try {
    const settings = { url, poolSize: 1, applicationName: 'spec of TLS', entities: [], migrations: [] };
    const source = await connectDatabase(settings, { timeoutMs: 0 });
    const [answer] = await rows<{ ssl: boolean }>(source, ASK);
    await source.destroy();
    return answer?.ssl === true ? 'tls' : 'plain';
  } catch {
    return 'refused';
  }
}

describe('the service and psql', skipFor(MISSING), () => {
  let server: TlsServer;
  const warnings: unknown[] = [];

  beforeAll(async () => {
    server = await TlsServer.start();
    process.on('warning', (warning) => warnings.push(warning.message));
  });
  afterAll(() => server.stop());
  afterEach(() => void vi.unstubAllEnvs());

  async function assertSame(urls: readonly string[]): Promise<Record<string, string>> {
    const [theirs, ours]: Record<string, string>[] = [{}, {}];
    for (const url of urls) {
      const text = url.replace(/.*\/(?=\w+\?)/, '').replaceAll(server.directory, '');
      [Object(theirs)[text], Object(ours)[text]] = await Promise.all([byPsql(url), byService(url)]);
    }
    assert.deepEqual(ours, theirs);
    return ours ?? {};
  }

  const MODES = ['', 'sslmode=disable', 'sslmode=allow', 'sslmode=prefer', 'sslmode=require'];
  const VERIFYING = ['sslmode=require', 'sslmode=prefer', 'sslmode=verify-ca', 'sslmode=verify-full'];

  it('take every mode of a URL for the same, on servers that want TLS, no TLS or either', async () => {
    const urls = ['postgres', 'only_tls', 'only_plain'].flatMap((database) => [
      ...MODES.map((query) => server.url(database, query)),
      ...VERIFYING.flatMap((mode) =>
        ['ca', 'other'].map((name) =>
          server.url(database, `${mode}&sslrootcert=${server.path(`${name}.crt`)}`),
        ),
      ),
    ]);
    const results = await assertSame(urls);
    assert.deepEqual(new Set(Object.values(results)), new Set(['tls', 'plain', 'refused']));
    assert.equal(results['only_tls?sslmode=require'], 'tls');
    assert.deepEqual(
      warnings.filter((text) => String(text).includes('SSL')),
      [],
    );
  });

  it('compare the name of the server with verify-full alone', async () => {
    const results = await assertSame(
      ['require', 'verify-ca', 'verify-full'].map((mode) =>
        server.url('postgres', `sslmode=${mode}&sslrootcert=${server.path('ca.crt')}`, '127.0.0.1'),
      ),
    );
    assert.deepEqual(Object.values(results), ['tls', 'tls', 'refused']);
  });

  it('read the same variables', async () => {
    vi.stubEnv('PGSSLROOTCERT', server.path('other.crt'));
    vi.stubEnv('PGSSLMODE', 'require');
    assert.deepEqual(Object.values(await assertSame([server.url('postgres', '')])), ['refused']);
    vi.stubEnv('PGSSLROOTCERT', server.path('ca.crt'));
    assert.deepEqual(Object.values(await assertSame([server.url('postgres', '')])), ['tls']);
    vi.stubEnv('PGSSLMODE', 'disable');
    assert.deepEqual(Object.values(await assertSame([server.url('postgres', '')])), ['plain']);
  });

  it('go on without TLS where the server has none, unless the mode forbids it; a socket has none', async () => {
    await server.sql('alter system set ssl = off');
    await server.sql('select pg_reload_conf()');
    const results = await assertSame([
      ...MODES.map((query) => server.url('postgres', query)),
      `postgres://postgres@/postgres?host=${server.directory}&port=${server.port}&sslmode=require`,
    ]);
    assert.deepEqual(Object.values(results), ['plain', 'plain', 'plain', 'plain', 'refused', 'plain']);
  });
});
