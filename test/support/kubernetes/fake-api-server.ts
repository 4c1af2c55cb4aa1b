import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { FakeObjects, matchesSelector, mergePatch, type ObjectEvent, type Resource } from './fake-objects.js';
import { kubeconfigOf, type KubeAnswer } from './kube-api.js';
import { Playback } from './playback.js';
import { fillIn, readAnswers, readRecording, secondsOf, type RecordedAnswers } from './recording.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

const PATHS =
  /^\/(?:api\/v1|apis\/batch\/v1)\/(?:namespaces\/([^/]+)\/)?(jobs|pods|secrets|nodes|events)(?:\/([^/]+))?(?:\/(log))?$/;
/** Every claim is there. */
const CLAIM = /^\/api\/v1\/namespaces\/[^/]+\/persistentvolumeclaims\/[^/]+$/;
const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const KINDS = {
  jobs: 'JobList',
  pods: 'PodList',
  secrets: 'SecretList',
  nodes: 'NodeList',
  events: 'EventList',
} as const;

interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  readonly resource: Resource;
  readonly name: string | undefined;
  readonly body: any;
}

/**
 * An API server without a cluster: the job of a run whose image is `recorded/NAME` goes through the states that were recorded
 * as NAME. Further attempts of the run go through those of `success`.
 */
export class FakeApiServer {
  readonly namespace = 'recorded';
  readonly objects = new FakeObjects();
  readonly #jobs = new Map<string, Playback>();
  readonly #open = new Set<ServerResponse>();
  /** Verb and resource, such as `create jobs`, that the launcher may not use. */
  readonly #forbidden = new Set<string>();
  #server: Server;
  #port = 0;

  private constructor(private readonly answers: RecordedAnswers) {
    for (const node of answers.nodes) this.objects.put('nodes', node);
    this.#server = this.listener();
  }

  static async start(): Promise<FakeApiServer> {
    const server = new FakeApiServer(await readAnswers());
    await server.resume();
    return server;
  }

  get kubeconfig(): string {
    return kubeconfigOf({
      server: `http://127.0.0.1:${this.#port}`,
      token: 'token',
      namespace: this.namespace,
    });
  }

  /** How many jobs were created so far. */
  get createdJobs(): number {
    return this.#jobs.size;
  }

  /** Jobs, pods and secrets that are there. */
  leftovers(): string[] {
    return (['jobs', 'pods', 'secrets'] as const).flatMap((resource) =>
      this.objects.list(resource).map(({ metadata }) => `${resource} ${metadata.name}`),
    );
  }

  forbid(verb: string, resource: Resource | 'pods/log'): void {
    this.#forbidden.add(`${verb} ${resource}`);
  }

  allowAll(): void {
    this.#forbidden.clear();
  }

  /** Cuts all watches and followed logs. @returns how many */
  cut(): number {
    for (const response of this.#open) response.destroy();
    const { size } = this.#open;
    this.#open.clear();
    return size;
  }

  /** As after a restart of the API server: watches are cut, and their versions are no longer known. */
  expire(): void {
    this.objects.forgetHistory();
    this.cut();
  }

  /** Refuses connections until `resume`. */
  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async resume(): Promise<void> {
    this.#server = this.listener();
    this.#server.listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    this.#port = address.port;
  }

  private listener(): Server {
    return createServer((request, response) => {
      this.handle(request, response).catch((error: unknown) => {
        // A launcher that sends what the fake does not know must not pass.
        console.error(error);
        send(response, { status: 500, body: { kind: 'Status', code: 500, message: String(error) } });
      });
    });
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://fake');
    let text = '';
    for await (const piece of request.setEncoding('utf8')) text += piece;
    const body = text === '' ? undefined : JSON.parse(text);
    if (pathname === '/version')
      return send(response, { status: 200, body: { gitVersion: this.answers.kubernetes } });
    const namespace = { kind: 'Namespace', metadata: { name: this.namespace } };
    if (pathname === `/api/v1/namespaces/${this.namespace}`)
      return send(response, { status: 200, body: namespace });
    if (pathname === REVIEWS) return send(response, this.review(body));
    if (CLAIM.test(pathname)) return send(response, { status: 200, body: { kind: 'PersistentVolumeClaim' } });
    const [, , resource, name, log] = PATHS.exec(pathname) ?? [];
    if (!isResource(resource))
      throw new Error(`the fake API server does not know ${request.method} ${pathname}`);
    const call = { request, response, query, resource, name, body };
    const verb = verbOf(call);
    if (this.#forbidden.has(`${verb} ${resource}${log === undefined ? '' : '/log'}`))
      return send(response, this.named(this.answers.forbidden, resource));
    if (log !== undefined) return this.sendLog(call);
    if (verb === 'watch') return this.watch(call);
    return send(response, await this.answer(verb, call));
  }

  private async answer(
    verb: string,
    { request, query, resource, name = '', body }: Call,
  ): Promise<KubeAnswer> {
    const found = this.objects.find(resource, name);
    switch (verb) {
      case 'list': {
        const [labels, fields] = [query.get('labelSelector'), query.get('fieldSelector')];
        const items = this.objects.list(resource).filter((one) => matchesSelector(one, labels, fields));
        const metadata = { resourceVersion: String(this.objects.version) };
        if (request.headers.accept?.includes('as=PartialObjectMetadataList') !== true)
          return { status: 200, body: { kind: KINDS[resource], apiVersion: 'v1', metadata, items } };
        const partial = items.map((one) => ({ metadata: one.metadata }));
        return {
          status: 200,
          body: { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1', metadata, items: partial },
        };
      }
      case 'create':
        return this.create(resource, body);
      case 'get':
        return found === undefined ? this.named(this.answers.notFound, name) : { status: 200, body: found };
      case 'patch': {
        if (found === undefined) return this.named(this.answers.notFound, name);
        return { status: 200, body: this.objects.put(resource, mergePatch(found, body)) };
      }
      case 'delete': {
        if (found === undefined) return this.named(this.answers.notFound, name);
        if (resource === 'jobs') return { status: 200, body: this.#jobs.get(name)?.delete() };
        // The node ends a pod of a recorded job as it was recorded.
        const isRecorded = resource === 'pods' && [...this.#jobs.values()].some((job) => job.owns(name));
        if (!isRecorded) this.objects.delete(resource, name);
        return { status: 200, body: found };
      }
      default:
        throw new Error(`the fake API server does not know ${verb} ${resource}`);
    }
  }

  private async create(resource: Resource, body: any): Promise<KubeAnswer> {
    const { name } = body.metadata;
    if (this.objects.find(resource, name) !== undefined) return this.named(this.answers.alreadyExists, name);
    if (resource !== 'jobs') {
      const own = { namespace: this.namespace, uid: randomUUID(), creationTimestamp: secondsOf(Date.now()) };
      return {
        status: 201,
        body: this.objects.put(resource, { ...body, metadata: { ...body.metadata, ...own } }),
      };
    }
    const scenario = scenarioOf(body, [...this.#jobs.keys()]);
    const posted = { ...body, metadata: { ...body.metadata, namespace: this.namespace } };
    const playback = new Playback(this.objects, posted, await readRecording(scenario));
    const message = playback.difference();
    if (message !== null)
      return { status: 422, body: { kind: 'Status', code: 422, reason: 'Invalid', message } };
    this.#jobs.set(name, playback);
    return { status: 201, body: playback.create() };
  }

  private review(body: any): KubeAnswer {
    const { verb, resource, subresource } = body.spec.resourceAttributes;
    const what = subresource === undefined ? resource : `${resource}/${subresource}`;
    const denied = this.#forbidden.has(`${verb} ${what}`);
    return denied ? this.answers.accessDenied : this.answers.accessAllowed;
  }

  private watch({ query, resource, response }: Call): void {
    const matches = ({ resource: changed, object }: ObjectEvent) =>
      changed === resource && matchesSelector(object, query.get('labelSelector'));
    const from = Number(query.get('resourceVersion') ?? 0);
    const missed = from === 0 ? null : this.objects.since(from);
    if (from !== 0 && missed === null) return send(response, this.answers.expired);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const tell = ({ type, object }: Pick<ObjectEvent, 'type' | 'object'>) =>
      void response.write(`${JSON.stringify({ type, object })}\n`);
    for (const event of missed ?? []) if (matches(event)) tell(event);
    if (missed === null) for (const object of this.objects.list(resource)) tell({ type: 'ADDED', object });
    const end = this.objects.onChange((event) => {
      if (matches(event)) tell(event);
    });
    this.#open.add(response);
    const seconds = Number(query.get('timeoutSeconds') ?? 0);
    const timer = seconds === 0 ? undefined : setTimeout(() => response.end(), seconds * 1000);
    response.once('close', () => {
      end();
      clearTimeout(timer);
      this.#open.delete(response);
    });
  }

  private sendLog({ query, name = '', response }: Call): void {
    const container = query.get('container') ?? '';
    const playback = [...this.#jobs.values()].find((one) => one.owns(name));
    const state = () => stateOf(this.objects.find('pods', name), container);
    if (state() === undefined || playback === undefined)
      return send(response, this.named(this.answers.notFound, name));
    if (state() === 'waiting') return send(response, this.named(this.answers.logTooEarly, name));
    const since = Date.parse(query.get('sinceTime') ?? '1970-01-01T00:00:00Z');
    const lines = playback
      .logOf(name, container)
      .split(/(?<=\n)/)
      .filter((line) => !(Date.parse(line.split(' ')[0] ?? '') < since))
      .map((line) => (query.get('timestamps') === 'true' ? line : line.replace(/^\S+ /, '')));
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.write(lines.join(''));
    const follows = query.get('follow') === 'true';
    const endWhenOver = () => {
      if (follows && state() === 'running') return;
      stopListening();
      this.#open.delete(response);
      response.end();
    };
    const stopListening = this.objects.onChange(endWhenOver);
    this.#open.add(response);
    response.once('close', stopListening);
    endWhenOver();
  }

  private named(answer: KubeAnswer, name: string): KubeAnswer {
    return fillIn(
      answer,
      new Map([
        ['name', name],
        ['namespace', this.namespace],
      ]),
      0,
    );
  }
}

/** `recorded/oom:1` is oom. */
function scenarioOf(job: any, earlier: readonly string[]): string {
  const { initContainers = [], containers } = job.spec.template.spec;
  const images: string[] = [...initContainers, ...containers].map(({ image }: any) => image);
  const name = images.flatMap((image) => /^recorded\/([a-z0-9/-]+)/.exec(image)?.[1] ?? [])[0];
  if (name === undefined) throw new Error(`no recording for ${images.join(', ')}`);
  const run = runOf(job.metadata.name);
  return earlier.some((other) => runOf(other) === run) ? 'success' : name;
}

/** The name of a job without its attempt. */
function runOf(job: string): string {
  return job.replace(/-\d+$/, '');
}

function stateOf(pod: any, container: string): 'waiting' | 'running' | 'terminated' | undefined {
  if (pod === undefined) return undefined;
  const all = [...(pod.status.initContainerStatuses ?? []), ...(pod.status.containerStatuses ?? [])];
  const { state = {} } = all.find(({ name }) => name === container) ?? {};
  return state.running ? 'running' : state.terminated ? 'terminated' : 'waiting';
}

function verbOf({ request, query, name, resource }: Omit<Call, 'response' | 'body'>): string {
  if (request.method === 'GET' && name === undefined) return query.get('watch') === 'true' ? 'watch' : 'list';
  const verbs: Record<string, string> = {
    GET: 'get',
    POST: 'create',
    DELETE: 'delete',
    PATCH: 'patch',
    PUT: 'update',
  };
  return verbs[request.method ?? ''] ?? `${request.method} ${resource}`;
}

function isResource(text: string | undefined): text is Resource {
  return text !== undefined && text in KINDS;
}

function send(response: ServerResponse, { status, body }: KubeAnswer): void {
  if (response.headersSent) return;
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify(body)}\n`);
}
