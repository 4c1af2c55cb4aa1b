/** A server of a DATABASE_URL; the host may be the directory of a Unix socket. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** Supported values of the parameter `target_session_attrs`. */
const TARGETS = ['any', 'primary', 'read-write'];

const DEFAULT_PORT = 5432;

/** Up to the end of the user, the hosts, and the rest. */
const FORM = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#@]*)(.*)$/su;
const HOST = /^(\[[\da-f:.]+\]|[^:]*)(?::(\d*))?$/iu;

export interface DatabaseUrl {
  /** With the first server only, and without the parameters that the driver does not know. */
  readonly url: string;
  /** All servers, in their order; empty for a URL with one, which the driver reads itself. */
  readonly servers: readonly ServerAddress[];
  /** Whether a server must accept writes by default (`read-write`). A standby is never used. */
  readonly needsWrites: boolean;
}

/**
 * Reads a URL as libpq does: `postgres://user@host1:5432,host2/db?target_session_attrs=read-write`, or the hosts in
 * `?host=host1,host2&port=5432,5433`.
 * @throws TypeError, without the URL, for a malformed one or an unsupported value of a parameter
 */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const [, start = '', hosts = '', rest = ''] = FORM.exec(text) ?? [];
  const [first = ''] = hosts.split(',');
  if (start === '' || !URL.canParse(`${start}${first}${rest}`)) throw new TypeError('the URL is malformed');
  const url = new URL(`${start}${first}${rest}`);
  const { searchParams } = url;
  const target = searchParams.get('target_session_attrs') ?? 'any';
  if (!TARGETS.includes(target)) {
    throw new TypeError(`target_session_attrs must be one of ${TARGETS.join(', ')}`);
  }
  if ((searchParams.get('load_balance_hosts') ?? 'disable') !== 'disable') {
    throw new TypeError('load_balance_hosts must be disable');
  }
  const servers = serversOf(hosts, searchParams);
  const needsWrites = target === 'read-write';
  if (servers.length === 0 && !searchParams.has('target_session_attrs')) {
    return { url: text, servers, needsWrites };
  }
  for (const name of ['target_session_attrs', 'load_balance_hosts']) searchParams.delete(name);
  for (const name of ['host', 'port']) {
    const [value] = searchParams.get(name)?.split(',') ?? [];
    if (value !== undefined) searchParams.set(name, value);
  }
  return { url: url.href, servers, needsWrites };
}

function serversOf(authority: string, parameters: URLSearchParams): ServerAddress[] {
  const hosts = (parameters.get('host') ?? authority).split(',');
  if (hosts.length === 1) return [];
  const ports = parameters.get('port')?.split(',') ?? [''];
  if (ports.length > 1 && ports.length !== hosts.length)
    throw new TypeError('there are not as many ports as hosts');
  return hosts.map((text, n) => {
    const shared = ports[n] ?? ports[0] ?? '';
    if (text.startsWith('/')) return { host: text, port: portOf(shared) };
    const [, host = '', port = ''] = HOST.exec(text) ?? [];
    if (host === '') throw new TypeError('a host is malformed');
    return { host: decodeURIComponent(host.replace(/^\[(.*)\]$/u, '$1')), port: portOf(port || shared) };
  });
}

function portOf(text: string): number {
  const port = text === '' ? DEFAULT_PORT : Number(text);
  if (!(Number.isInteger(port) && port >= 1 && port <= 65_535)) throw new TypeError('a port is malformed');
  return port;
}
