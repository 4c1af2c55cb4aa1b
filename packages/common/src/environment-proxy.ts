import { isIPv6 } from 'node:net';
import { SettingsError } from './settings/setting.js';

/** Names of proxies, of which `fetch` of Node reads none. */
const VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy'] as const;

/** Reached directly, without an entry in NO_PROXY. */
const THIS_MACHINE = ['localhost', '127.0.0.1', '[::1]'];

type Environment = Readonly<NodeJS.ProcessEnv>;

/** Whether HTTPS_PROXY or HTTP_PROXY names a proxy. */
export function namesProxy(env: Environment): boolean {
  return VARIABLES.some((name) => (env[name] ?? '') !== '');
}

/**
 * Lets `fetch` of this process use the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as curl does: a proxy without a scheme is
 * an HTTP proxy, `http:` URLs are requested from the proxy, `https:` URLs through a tunnel, and this machine directly. `fetch` then
 * has no limit of time for headers and bodies: callers have theirs.
 * @throws SettingsError when a proxy is no URL
 */
export async function useEnvironmentProxy(env: Environment): Promise<void> {
  const { EnvHttpProxyAgent, setGlobalDispatcher } = await import('undici');
  const agent = new EnvHttpProxyAgent({
    httpProxy: proxyOf(env, 'HTTP_PROXY'),
    httpsProxy: proxyOf(env, 'HTTPS_PROXY'),
    noProxy: noProxyOf(env),
    proxyTunnel: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  setGlobalDispatcher(agent);
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

/** As undici reads it: IPv6 addresses in brackets. */
function noProxyOf(env: Environment): string {
  const value = (env['no_proxy'] ?? env['NO_PROXY'] ?? '').trim();
  if (value === '*') return value;
  const hosts = value.split(/[,\s]+/).map((host) => (isIPv6(host) ? `[${host}]` : host));
  return [...THIS_MACHINE, ...hosts].join(',');
}
