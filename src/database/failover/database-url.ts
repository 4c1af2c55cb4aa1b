import { existsSync } from 'node:fs';
import { readTls, type TlsOptions } from './tls-options.js';

/** A server of a DATABASE_URL; the host may be the directory of a Unix socket. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** Supported values of the parameter `target_session_attrs`. */
const TARGETS = ['any', 'primary', 'read-write'];

export const DEFAULT_PORT = 5432;

/** Where PostgreSQL has its socket: on Debian and Red Hat, elsewhere. */
const SOCKET_FOLDERS = ['/var/run/postgresql', '/tmp'];

/** User and password, hosts, database, parameters. */
const FORM = /^postgres(?:ql)?:\/\/(?:([^/?]*)@)?([^/?@]*)(?:\/([^?]*))?(?:\?(.*))?$/su;
const HOST = /^(\[[\da-f:.]+\]|[^:]*)(?::(\d*))?$/iu;

/** Parameters that decide where and how to connect, and those that change nothing here. Others are refused, as libpq does. */
const READ = [
  'host port user password dbname application_name options target_session_attrs load_balance_hosts channel_binding gssencmode',
  'ssl sslmode sslnegotiation sslrootcert sslcert sslkey sslpassword ssl_min_protocol_version ssl_max_protocol_version',
];
const WITHOUT_EFFECT =
  'client_encoding connect_timeout fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout sslcompression sslsni krbsrvname gsslib';
const PARAMETERS = new Set([...READ, WITHOUT_EFFECT].join(' ').split(' '));

/** Parameters of which the driver has one meaning only. */
const FIXED = [
  { name: 'load_balance_hosts', words: ['disable'] },
  { name: 'channel_binding', words: ['prefer', 'disable'] },
  { name: 'gssencmode', words: ['prefer', 'disable'] },
  { name: 'ssl', words: ['true'] },
];

/** What a URL says; what it leaves open is undefined, and the driver's variables (PGUSER, PGPASSWORD, PGDATABASE) apply. */
export interface DatabaseUrl {
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  readonly applicationName: string | undefined;
  /** Options of the server process (`-c name=value`). */
  readonly options: string | undefined;
  /** In their order, at least one. A standby, or a server that is read-only, is never used. */
  readonly servers: readonly ServerAddress[];
  readonly tls: TlsOptions;
}

/**
 * Reads a URL as libpq does: `postgres://user@host1:5432,host2/db?target_session_attrs=read-write`, the hosts in
 * `?host=host1,host2&port=5432,5433`, or the directory of a socket as host. The variables of libpq apply where it is silent.
 * @throws TypeError, without the URL, for a malformed one, an unsupported parameter or value, or a missing certificate
 */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const [form, credentials = '', authority = '', path = '', query = ''] = FORM.exec(text) ?? [];
  if (form === undefined || /[\s\p{Cc}]/u.test(text)) throw new TypeError('the URL is malformed');
  const parameters = parametersOf(query);
  const read = (name: string, variable: string): string | undefined =>
    parameters.get(name) || process.env[variable] || undefined;
  for (const { name, words } of FIXED) {
    const word = parameters.get(name);
    if (word !== undefined && !words.includes(word))
      throw new TypeError(`${name} must be ${words.join(' or ')}`);
  }
  if (!TARGETS.includes(read('target_session_attrs', 'PGTARGETSESSIONATTRS') ?? 'any')) {
    throw new TypeError(`target_session_attrs must be one of ${TARGETS.join(', ')}`);
  }
  // The name that JDBC has for it, which libpq takes too.
  if (parameters.has('ssl') && !parameters.has('sslmode')) parameters.set('sslmode', 'require');
  const [, user, password] = /^([^:]*)(?::(.*))?$/s.exec(credentials) ?? [];
  return {
    user: parameters.get('user') || decoded(user) || undefined,
    password: parameters.get('password') || decoded(password) || undefined,
    database: parameters.get('dbname') || decoded(path) || undefined,
    applicationName: parameters.get('application_name') || undefined,
    options: parameters.get('options') || undefined,
    servers: serversOf(authority, parameters),
    tls: readTls(read),
  };
}

function parametersOf(query: string): Map<string, string> {
  const pairs = query === '' ? [] : query.split('&');
  return new Map(
    pairs.map((pair) => {
      const [, name = '', value] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
      if (!PARAMETERS.has(decoded(name))) {
        // Not what follows it, which may be a part of a password.
        throw new TypeError(
          /^\w+$/.test(name) ? `the parameter ${name} is not supported` : 'the URL is malformed',
        );
      }
      return [decoded(name), decoded(value)];
    }),
  );
}

function serversOf(authority: string, parameters: ReadonlyMap<string, string>): ServerAddress[] {
  const named = authority.split(',').map((text) => {
    const [form, host = '', port = ''] = HOST.exec(text) ?? [];
    if (form === undefined) throw new TypeError('the URL is malformed: a host or its port');
    return { host: decoded(host.replace(/^\[(.*)\]$/u, '$1')), port };
  });
  const inQuery =
    parameters.get('host') ||
    (authority === '' || named.every(({ host }) => host === '') ? process.env['PGHOST'] : '');
  const hosts = inQuery ? inQuery.split(',') : named.map(({ host }) => host);
  const namedPorts = named.map(({ port }) => port);
  const ports =
    (parameters.get('port') || undefined)?.split(',') ??
    (namedPorts.some((port) => port !== '') ? namedPorts : [process.env['PGPORT'] ?? '']);
  if (ports.length > 1 && ports.length !== hosts.length) {
    throw new TypeError('there are not as many ports as hosts');
  }
  return hosts.map((host, n) => {
    if (host === '' && hosts.length > 1) throw new TypeError('a host is malformed');
    const port = portOf(ports[n] ?? ports[0] ?? '');
    return { host: host || defaultHost(port), port };
  });
}

/** As libpq: the socket of this machine, else its network. */
function defaultHost(port: number): string {
  return SOCKET_FOLDERS.find((folder) => existsSync(`${folder}/.s.PGSQL.${port}`)) ?? 'localhost';
}

function portOf(text: string): number {
  const port = text === '' ? DEFAULT_PORT : Number(text);
  if (!(Number.isInteger(port) && port >= 1 && port <= 65_535)) throw new TypeError('a port is malformed');
  return port;
}

function decoded(text = ''): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError('the URL is malformed: a character after %');
  }
}
