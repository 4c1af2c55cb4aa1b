import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { inspect } from 'node:util';
import type Dockerode from 'dockerode';
import { NO_MASK, type SecretMask } from '../../../secrets/secret-mask.js';
import {
  type EngineAddress,
  describeEngineAddress,
  readEngineAddress,
  selectedContext,
} from './engine-address.js';
import { errorText } from '@longshore/common/errors';
import { clip } from '@longshore/common/json/text';
import { oneLine } from '@longshore/common/shown-text';

const MAX_MESSAGE_LENGTH = 1_000;

const LIBRARY_PREFIX = /^\(HTTP code [0-9]{3}\) [^-]* - /;

/**
 * A client of the engine. Loads the library on first use, because that is slow. Every call uses a new connection: a
 * pooled one would be dead after a restart of the engine.
 * @param idleMs closes connections without traffic; not for waiting calls
 */
export async function connectEngine(address: EngineAddress, idleMs?: number): Promise<Dockerode> {
  const { default: Docker } = await import('dockerode');
  // Explicitly undefined: the library would read absent options from the environment.
  const nowhere = { host: undefined, port: undefined, socketPath: undefined, ca: undefined, cert: undefined };
  const common = { ...nowhere, key: undefined, pathPrefix: '/', timeout: idleMs };
  if (address.kind === 'socket') {
    return new Docker({ ...common, protocol: 'http', socketPath: address.path, ...agent(new http.Agent()) });
  }
  const { host, port, tls } = address;
  if (tls === null)
    return new Docker({ ...common, protocol: 'http', host, port, ...agent(new http.Agent()) });
  return new Docker({ ...common, ...tls, protocol: 'https', host, port, ...agent(new https.Agent(tls)) });
}

/**
 * The library accepts an agent, its types do not. It inspects the options of each request to the last level, for a line of debug that nobody
 * reads: without a text of its own, an agent with 20 open connections would cost 100 ms of CPU a request.
 */
function agent(value: http.Agent): object {
  return { agent: Object.assign(value, { [inspect.custom]: () => 'agent' }) };
}

/**
 * Calls the engine with a time limit.
 * @throws Error that says what was not answered, after `limitMs`; otherwise whatever the call throws
 */
export async function withLimit<T>(
  limitMs: number,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`the container engine did not answer '${what}' within ${limitMs / 1000} s`));
      abort.abort();
    }, limitMs);
  });
  try {
    return await Promise.race([call(abort.signal), late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Requests the end of a container (`wait`) or what it is (`json`), as the library does, but as a stream, which has the headers: of
 * any other answer whose connection breaks after its head, which the engine sends at once, the library never tells.
 */
export function requestOf(
  { id, modem }: Dockerode.Container,
  what: 'wait' | 'json',
  abortSignal: AbortSignal,
): Promise<IncomingMessage> {
  const call = {
    path: `/containers/${id}/${what}?`,
    method: what === 'wait' ? 'POST' : 'GET',
    isStream: true,
    abortSignal,
    statusCodes: { 200: true, 404: 'no such container', 500: 'server error' },
    options: what === 'wait' ? { condition: 'not-running' } : {},
  };
  return new Promise((resolve, reject) => {
    modem.dial(call, (error: Error | null, answer: IncomingMessage) => {
      if (error) reject(error);
      else resolve(answer);
    });
  });
}

/** HTTP status that the engine answered with, or null when the failure is not an answer of the engine. */
export function engineStatus(error: unknown): number | null {
  const status = field(error, 'statusCode');
  return typeof status === 'number' ? status : null;
}

/**
 * What an error of an engine call says, as one line without the library's decoration, 1,000 characters at most.
 * @param mask applied before the text is changed and cut, so that no piece of a value is left
 */
export function engineMessage(error: unknown, mask: SecretMask = NO_MASK): string {
  const answered = field(field(error, 'json'), 'message');
  const own = errorText(error).replace(LIBRARY_PREFIX, '');
  const text = typeof answered === 'string' && answered !== '' ? answered : own;
  return clip(oneLine(mask.text(text)), MAX_MESSAGE_LENGTH);
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** What an engine can do, and has. */
export interface EngineFeatures {
  /** The log driver `local`. */
  readonly hasLog: boolean;
  /** A first process for containers, which reaps zombies. */
  readonly hasInit: boolean;
  /** CPU cores. */
  readonly cores: number;
  /** Whether users of containers are others on the machine (`userns-remap`). */
  readonly isRemapped: boolean;
  readonly isPodman: boolean;
  /** Limits of containers that it says it discards. */
  readonly discards: readonly ('ram_limit' | 'cpu_limit' | 'pids_limit')[];
  /**
   * Whether containers cannot write where a volume without a name is read-only. runc takes that over from the mount; crun
   * makes its own, which can be written.
   */
  readonly keepsReadOnly: boolean;
}

/** Names of runc: its own, and that of containerd's shim, which engines also take. */
const RUNC = /^(?:runc|io\.containerd\.runc\.v[0-9]+)$/;

export function isRunc(ociRuntime: string): boolean {
  return RUNC.test(ociRuntime);
}

/** The OCI runtime that containers get by default, by what the engine answers to `info`. */
export function defaultRuntime(info: unknown): string {
  const { DefaultRuntime: name } = Object(info);
  return typeof name === 'string' && name !== '' ? name : 'runc';
}

/**
 * Asks an engine what it can do. Podman cannot keep a log of limited size, and does not say whether it has a first process for
 * containers.
 * @param limitMs of the request, in milliseconds
 * @param ociRuntime of containers; null: the default one of the engine
 */
export async function readFeatures(
  engine: Dockerode,
  limitMs: number,
  ociRuntime: string | null,
): Promise<EngineFeatures> {
  const info = await withLimit(limitMs, 'info', (): Promise<unknown> => engine.info());
  const { Plugins, InitBinary, NCPU, SecurityOptions, BuildahVersion } = Object(info);
  const { MemoryLimit, CpuCfsQuota, PidsLimit } = Object(info);
  const drivers: unknown = Object(Plugins).Log;
  return {
    hasLog: Array.isArray(drivers) && drivers.includes('local'),
    hasInit: typeof InitBinary === 'string' && InitBinary !== '',
    isRemapped: Array.isArray(SecurityOptions) && SecurityOptions.includes('name=userns'),
    isPodman: typeof BuildahVersion === 'string',
    // An engine that does not know the question does not answer false.
    discards: [
      ...(MemoryLimit === false ? (['ram_limit'] as const) : []),
      ...(CpuCfsQuota === false ? (['cpu_limit'] as const) : []),
      ...(PidsLimit === false ? (['pids_limit'] as const) : []),
    ],
    keepsReadOnly: isRunc(ociRuntime ?? defaultRuntime(info)),
    cores: typeof NCPU === 'number' && NCPU > 0 ? NCPU : 1,
  };
}

const PING_MS = 3_000;

/** Why no engine can be used where DOCKER_HOST says, in one sentence; null when one answers within 3 s. */
export async function engineProblem(env: NodeJS.ProcessEnv): Promise<string | null> {
  let where = 'the container engine';
  try {
    const address = readEngineAddress(env);
    where = `the container engine at ${describeEngineAddress(address)}`;
    const engine = await connectEngine(address, PING_MS);
    await withLimit(PING_MS, 'ping', () => engine.ping());
    return null;
  } catch (error) {
    const context = (env['DOCKER_HOST'] ?? '') === '' ? selectedContext(env) : null;
    const hint =
      context === null
        ? ''
        : `; the Docker context '${context}' is selected, but Longshore reads only DOCKER_HOST: ` +
          `set it to the address that 'docker context inspect' shows`;
    return `${where} cannot be used: ${engineMessage(error)}${hint}`;
  }
}
