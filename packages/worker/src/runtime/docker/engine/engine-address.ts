import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isJsonObject } from '@longshore/common/json/json-value';

/** Where a container engine listens. */
export type EngineAddress =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: EngineTls | null };

/** PEM texts of a client's TLS identity and of the authority that it trusts. */
export interface EngineTls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

const DEFAULT_SOCKET = '/var/run/docker.sock';

/**
 * Reads DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH the way the Docker CLI does; without DOCKER_HOST the
 * system's socket, or where there is none Docker Desktop's socket in the home folder.
 * @throws Error that says what is wrong with the variable
 */
export function readEngineAddress(env: NodeJS.ProcessEnv): EngineAddress {
  const value = env['DOCKER_HOST'] ?? '';
  if (value === '' || value === 'unix://') return { kind: 'socket', path: defaultSocket() };
  if (value.startsWith('unix://')) return { kind: 'socket', path: value.slice('unix://'.length) };
  if (value.startsWith('npipe://')) return { kind: 'socket', path: value.slice('npipe://'.length) };
  const url = parseUrl(value.includes('://') ? value : `tcp://${value}`);
  if (
    url === null ||
    !['tcp:', 'http:', 'https:'].includes(url.protocol) ||
    !['', '/'].includes(url.pathname)
  ) {
    throw new Error(`DOCKER_HOST must look like unix:///path/to/socket or tcp://host:port, not '${value}'`);
  }
  const tls = url.protocol === 'https:' || (env['DOCKER_TLS_VERIFY'] ?? '') !== '' ? readTls(env) : null;
  const port = url.port === '' ? (tls === null ? 2375 : 2376) : Number(url.port);
  return { kind: 'tcp', host: url.hostname === '' ? 'localhost' : url.hostname, port, tls };
}

/** The address as the operator would write it, for messages. */
export function describeEngineAddress(address: EngineAddress): string {
  return address.kind === 'socket' ? `unix://${address.path}` : `tcp://${address.host}:${address.port}`;
}

/** What says that there is an engine: DOCKER_HOST, or a Docker context that is selected; null: nothing does. */
export function namedEngine(env: NodeJS.ProcessEnv): string | null {
  if ((env['DOCKER_HOST'] ?? '') !== '') return 'DOCKER_HOST';
  const context = selectedContext(env);
  return context === null ? null : `the Docker context '${context}'`;
}

/** The Docker context that the Docker CLI uses without DOCKER_HOST; null: its default one. */
export function selectedContext(env: NodeJS.ProcessEnv): string | null {
  const name = env['DOCKER_CONTEXT'] || contextOfConfig(env['DOCKER_CONFIG'] || join(homedir(), '.docker'));
  return name === '' || name === 'default' ? null : name;
}

function contextOfConfig(folder: string): string {
  try {
    const config: unknown = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
    return isJsonObject(config) && typeof config['currentContext'] === 'string'
      ? config['currentContext']
      : '';
  } catch {
    // None, or one that the Docker CLI cannot read either.
    return '';
  }
}

function defaultSocket(): string {
  const ofDesktop = join(homedir(), '.docker', 'run', 'docker.sock');
  return !existsSync(DEFAULT_SOCKET) && existsSync(ofDesktop) ? ofDesktop : DEFAULT_SOCKET;
}

function parseUrl(value: string): URL | null {
  return URL.canParse(value) ? new URL(value) : null;
}

function readTls(env: NodeJS.ProcessEnv): EngineTls {
  const configured = env['DOCKER_CERT_PATH'] ?? '';
  const folder = configured === '' ? join(homedir(), '.docker') : configured;
  const read = (name: string): string => {
    try {
      return readFileSync(join(folder, name), 'utf8');
    } catch (cause) {
      throw new Error(`DOCKER_TLS_VERIFY needs a readable ${name} in DOCKER_CERT_PATH or ~/.docker`, {
        cause,
      });
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}
