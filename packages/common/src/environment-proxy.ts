/** Names of proxies, of which `fetch` of Node reads none. */
const VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy'];

/** Whether HTTPS_PROXY or HTTP_PROXY names a proxy. */
export function namesProxy(env: Readonly<NodeJS.ProcessEnv>): boolean {
  return VARIABLES.some((name) => (env[name] ?? '') !== '');
}

/**
 * Lets `fetch` of this process use the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as they are set now. It then has no limit of
 * time of its own for headers and bodies: callers have theirs.
 * @throws Error when a proxy is no URL
 */
export async function useEnvironmentProxy(): Promise<void> {
  const { EnvHttpProxyAgent, setGlobalDispatcher } = await import('undici');
  setGlobalDispatcher(new EnvHttpProxyAgent({ headersTimeout: 0, bodyTimeout: 0 }));
}
