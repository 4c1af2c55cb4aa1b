import { BlockList, isIP } from 'node:net';
import { namesOwnCa, readOwnCas } from './own-ca.js';
import { SettingsError } from './settings/setting.js';

/** Names of proxies, of which `fetch` of Node reads none. */
const VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy'] as const;

/** Reached directly, without an entry in NO_PROXY. */
const THIS_MACHINE: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '::1']);

type Environment = Readonly<NodeJS.ProcessEnv>;

/** Whether {@link useEnvironmentProxy} changes anything: a proxy or a CA is named. */
export function needsDispatcher(env: Environment): boolean {
  return VARIABLES.some((name) => (env[name] ?? '') !== '') || namesOwnCa(env);
}

/**
 * Lets `fetch` of this process use the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as curl does: a proxy without a scheme is
 * an HTTP proxy, `http:` URLs are requested from the proxy, `https:` URLs through a tunnel, and this machine directly; and trust the
 * CAs of {@link readOwnCas}. `fetch` then has no limit of time for headers and bodies: callers have theirs.
 * @throws SettingsError when a proxy is no URL, or a file of CAs cannot be read
 */
export async function useEnvironmentProxy(env: Environment): Promise<void> {
  const { Agent, ProxyAgent, setGlobalDispatcher } = await import('undici');
  const ca = readOwnCas(env);
  const tls = ca === undefined ? {} : { ca: [...ca] };
  const limits = { headersTimeout: 0, bodyTimeout: 0 };
  const direct = new Agent({ ...limits, connect: tls });
  const through = new Map(
    [proxyOf(env, 'HTTP_PROXY'), proxyOf(env, 'HTTPS_PROXY')]
      .filter((uri) => uri !== '')
      .map((uri) => [
        uri,
        new ProxyAgent({ ...limits, uri, proxyTunnel: false, requestTls: tls, proxyTls: tls }),
      ]),
  );
  setGlobalDispatcher(
    direct.compose((dispatch) => (options, handler) => {
      const agent = through.get(chooseProxy(new URL(String(options.origin)), env));
      return agent === undefined ? dispatch(options, handler) : agent.dispatch(options, handler);
    }),
  );
}

/** The proxy that requests to a URL go through, without its user and password; undefined: none. */
export function proxyFor(url: string, env: Environment): string | undefined {
  const proxy = chooseProxy(new URL(url), env);
  return proxy === '' ? undefined : new URL(proxy).origin;
}

/** Empty: none. Without HTTPS_PROXY, that of HTTP_PROXY is used for both. */
function chooseProxy(url: URL, env: Environment): string {
  const https = url.protocol === 'https:' ? proxyOf(env, 'HTTPS_PROXY') : '';
  const proxy = https === '' ? proxyOf(env, 'HTTP_PROXY') : https;
  return proxy === '' || isDirect(url, env) ? '' : proxy;
}

/** Empty: none. */
function proxyOf(env: Environment, name: 'HTTP_PROXY' | 'HTTPS_PROXY'): string {
  const value = (env[name.toLowerCase()] ?? env[name] ?? '').trim();
  if (value === '') return '';
  const url = value.includes('://') ? value : `http://${value}`;
  // The value may hold a password.
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new SettingsError([`${name} must be the http:// or https:// URL of a proxy`]);
  return url;
}

/** Whether NO_PROXY has the host, a domain above it, its address or a range with it. */
function isDirect({ hostname, port, protocol }: URL, env: Environment): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (THIS_MACHINE.has(host)) return true;
  const value = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').trim();
  if (value === '*') return true;
  const ports = port === '' ? (protocol === 'https:' ? '443' : '80') : port;
  return value.split(/[,\s]+/).some((entry) => {
    if (entry.includes('/')) return isInRange(host, entry);
    const plain = entry.toLowerCase();
    if (isIP(plain) !== 0) return plain === host;
    const [, name = '', only] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(plain) ?? [];
    if (only !== undefined && only !== ports) return false;
    const domain = name.replace(/^\*?\./, '');
    return domain !== '' && (host === domain || host.endsWith(`.${domain}`));
  });
}

/** Whether an address is in a range such as `10.0.0.0/8`. A name is not looked up, and what is no range has no address. */
function isInRange(host: string, range: string): boolean {
  const [, network = '', bits = ''] = /^\[?([^\]]*)\]?\/(\d{1,3})$/.exec(range) ?? [];
  const family = isIP(network);
  if (family === 0 || isIP(host) !== family || Number(bits) > (family === 4 ? 32 : 128)) return false;
  const list = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  list.addSubnet(network, Number(bits), type);
  return list.check(host, type);
}
