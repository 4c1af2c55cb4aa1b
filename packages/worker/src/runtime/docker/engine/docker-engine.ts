import http from 'node:http';
import https from 'node:https';
import type { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import { NO_MASK, type SecretMask } from '../../../secrets/secret-mask.js';
import type { EngineAddress } from './engine-address.js';

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

/** The library accepts an agent, its types do not. */
function agent(value: http.Agent): object {
  return { agent: value };
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
 * Requests the end of a container, as the library does, but as a stream: of any other answer whose connection breaks after its
 * head, which the engine sends at once, the library never tells.
 */
export function requestWait({ id, modem }: Dockerode.Container, abortSignal: AbortSignal): Promise<Readable> {
  const statusCodes = { 200: true, 404: 'no such container', 500: 'server error' };
  const options = { condition: 'not-running' };
  const call = {
    path: `/containers/${id}/wait?`,
    method: 'POST',
    isStream: true,
    abortSignal,
    statusCodes,
    options,
  };
  return new Promise((resolve, reject) => {
    modem.dial(call, (error: Error | null, answer: Readable) => {
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
  const own = (error instanceof Error ? error.message : String(error)).replace(LIBRARY_PREFIX, '');
  const text = typeof answered === 'string' && answered !== '' ? answered : own;
  const oneLine = mask
    .text(text)
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim();
  return oneLine.length > MAX_MESSAGE_LENGTH ? `${oneLine.slice(0, MAX_MESSAGE_LENGTH)}...` : oneLine;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
