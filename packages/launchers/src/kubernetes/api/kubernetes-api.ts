import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { delimiter } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import { EngineFault } from '@longshore/worker/runtime/runtime';
import { SettingsError } from '@longshore/common/settings/setting';
import { errorText } from '@longshore/common/errors';
import { oneLine } from '@longshore/common/shown-text';

/** Limit of a request without a stream, in milliseconds. */
const REQUEST_TIMEOUT_MS = 30_000;

/** Objects of one page of a list. */
const PAGE_SIZE = 500;

/** Silence after which the socket asks whether the other side is still there, in milliseconds. Load balancers drop idle connections. */
const KEEP_ALIVE_MS = 30_000;

const LONGEST_MESSAGE = 1_000;

/** The API server answered with an error. */
export class ApiError extends Error {
  /**
   * @param status HTTP status
   * @param reason machine-readable, such as AlreadyExists; empty: none
   */
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

type Query = Readonly<Record<string, string | number | boolean>>;

interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Query;
  readonly body?: object;
  readonly accept?: string;
}

interface Page<T> {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: readonly T[];
}

/** A complete list. */
interface Listed<T> {
  readonly items: readonly T[];
  /** Where a watch continues. */
  readonly version: string;
}

/**
 * Requests to the API server. The configuration, its logins and TLS are those of the client library. The library's own requests
 * are not used: they have no timeout, a log whose connection breaks never ends, a refused watch hides its reason, and lists
 * and watches give times in different types.
 */
export class KubernetesApi {
  constructor(
    private readonly config: KubeConfig,
    /** Address of the API server. */
    readonly server: string,
  ) {}

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.call<T>({ method: 'GET', path, query }, signal);
  }

  create<T>(path: string, body: object): Promise<T> {
    return this.call<T>({ method: 'POST', path, body });
  }

  /** Merges the patch into the object (RFC 7386). */
  merge(path: string, body: object): Promise<object> {
    return this.call<object>({ method: 'PATCH', path, body });
  }

  /** @returns whether the object was there */
  async delete(path: string, options: object = {}): Promise<boolean> {
    const body = { kind: 'DeleteOptions', apiVersion: 'v1', ...options };
    return (await orNull(this.call<object>({ method: 'DELETE', path, body }))) !== null;
  }

  /** All objects as they are now, read in pages. */
  async list<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Listed<T>> {
    const items: T[] = [];
    let version = '';
    for await (const page of this.pages<T>(path, query, signal)) {
      items.push(...(page.items ?? []));
      version = page.metadata?.resourceVersion ?? '';
    }
    return { items, version };
  }

  /** The pages of a list. @param accept default: JSON */
  async *pages<T>(
    path: string,
    query: Query = {},
    signal?: AbortSignal,
    accept?: string,
  ): AsyncGenerator<Page<T>, void, undefined> {
    let from: string | undefined = '';
    while (from !== undefined) {
      const paging: Query = from === '' ? { limit: PAGE_SIZE } : { limit: PAGE_SIZE, continue: from };
      const call: Call = { method: 'GET', path, query: { ...query, ...paging } };
      const page: Page<T> = await this.call(accept === undefined ? call : { ...call, accept }, signal);
      yield page;
      from = page.metadata?.continue || undefined;
    }
  }

  /**
   * Opens an answer that has no end of its own, such as a watch.
   * @throws ApiError
   * @throws Error when there is no answer
   */
  async stream(path: string, query: Query, signal: AbortSignal): Promise<IncomingMessage> {
    const started = new AbortController();
    const timer = setTimeout(() => started.abort(noAnswer()), REQUEST_TIMEOUT_MS);
    try {
      return await this.send({ method: 'GET', path, query }, AbortSignal.any([signal, started.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  private async call<T>(call: Call, signal?: AbortSignal): Promise<T> {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(noAnswer()), REQUEST_TIMEOUT_MS);
    try {
      const limit = signal === undefined ? timeout.signal : AbortSignal.any([signal, timeout.signal]);
      const answer: T = JSON.parse(await text(await this.send(call, limit)));
      return answer;
    } catch (error) {
      throw timeout.signal.aborted ? timeout.signal.reason : error;
    } finally {
      clearTimeout(timer);
    }
  }

  private async send(call: Call, signal: AbortSignal): Promise<IncomingMessage> {
    const url = new URL(this.server.replace(/\/+$/, '') + call.path);
    for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, String(value));
    const headers: http.OutgoingHttpHeaders = { Accept: call.accept ?? 'application/json' };
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    if (body !== undefined) {
      headers['Content-Type'] = call.method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
      // Node does not add it to a DELETE, whose body would then be lost.
      headers['Content-Length'] = Buffer.byteLength(body);
    }
    const options: https.RequestOptions = { method: call.method, headers, signal };
    await this.config.applyToHTTPSOptions(options);
    const request = (url.protocol === 'https:' ? https : http).request(url, options);
    // An abort after the answer has begun is an error of the answer; the request may report it, too.
    request.on('error', () => undefined);
    request.setSocketKeepAlive(true, KEEP_ALIVE_MS);
    request.end(body);
    const [response]: IncomingMessage[] = await once(request, 'response');
    if (response === undefined) throw new Error('the API server did not answer');
    if ((response.statusCode ?? 500) < 300) return response;
    throw asApiError(response.statusCode ?? 500, await text(response));
  }
}

/** @returns null when the object does not exist */
export async function orNull<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** The error of a body of kind Status, also of one that a watch gives. */
export function asApiError(status: number, body: string | object): ApiError {
  const said: unknown = typeof body === 'string' ? parse(body) : body;
  const message = field(said, 'message') || (typeof body === 'string' ? body : '') || `status ${status}`;
  return new ApiError(status, field(said, 'reason'), oneLine(message).slice(0, LONGEST_MESSAGE));
}

/** Whether a message says that an admission policy, such as Gatekeeper's, refuses the object itself. A quota is none. */
export function isDenial(message: string): boolean {
  return /\bdenied (?:the )?request\b/.test(message);
}

/** The failure of a request as a fault of the engine. Errors that are one already, or the run's, are kept. */
export function asEngineFault(error: unknown, what: string): EngineFault {
  if (error instanceof EngineFault) return error;
  return new EngineFault(`Kubernetes could not ${what}: ${errorText(error)}`, { cause: error });
}

function noAnswer(): Error {
  return new Error(`the API server did not answer within ${REQUEST_TIMEOUT_MS / 1000} s`);
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function field(value: unknown, name: string): string {
  const found: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  return typeof found === 'string' ? found : '';
}

/** Where the client library looks when nothing is configured. */
const NOT_CONFIGURED = 'http://localhost:8080';

interface Connection {
  readonly api: KubernetesApi;
  /** Namespace that the configuration names; null: none. */
  readonly namespace: string | null;
}

/**
 * Reads the files of KUBECONFIG, else ~/.kube/config, else what Kubernetes gives to a pod. Loads the client library on first
 * use, because that is slow.
 * @throws SettingsError when there is none or it cannot be used
 */
export async function connect(env: Readonly<NodeJS.ProcessEnv>): Promise<Connection> {
  const { KubeConfig } = await import('@kubernetes/client-node');
  const config = new KubeConfig();
  const files = (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
  try {
    const [first, ...others] = files;
    if (first === undefined) config.loadFromDefault();
    else config.loadFromFile(first);
    for (const file of others) {
      const more = new KubeConfig();
      more.loadFromFile(file);
      config.mergeConfig(more, true);
    }
  } catch (error) {
    const [why] = errorText(error).split('\n');
    throw new SettingsError([`The configuration of the Kubernetes client cannot be read: ${why}`]);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null || cluster.server === NOT_CONFIGURED) {
    throw new SettingsError([
      'SERVICE_WORKER_RUNTIME is kubernetes, but no cluster is configured: set KUBECONFIG, or run the worker in a pod with a service account',
    ]);
  }
  const context = config.getContextObject(config.getCurrentContext());
  return { api: new KubernetesApi(config, cluster.server), namespace: context?.namespace ?? null };
}
