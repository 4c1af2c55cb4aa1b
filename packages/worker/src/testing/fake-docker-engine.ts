import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import {
  answerStat,
  asCreate,
  json,
  readBody,
  report,
  type Answer,
  type EngineCall,
  type FakeContainer,
} from './fake-engine-answers.js';
import { FakeImages, imageId } from './fake-images.js';

const NETWORKS = ['bridge', 'none'];
const INFO: object = {
  Plugins: { Log: ['json-file', 'local'] },
  InitBinary: 'docker-init',
  NCPU: 4,
  Runtimes: { runc: {}, runsc: {} },
  DefaultRuntime: 'runc',
};
const VERSION: object = {
  Version: '29.0.0',
  Components: [
    { Name: 'Engine', Version: '29.0.0' },
    { Name: 'runc', Version: '1.3.3' },
  ],
};

/** A Docker Engine API on a Unix socket. Tests control output and end of its containers and can replace any answer. */
export class FakeDockerEngine {
  readonly calls: EngineCall[] = [];
  readonly containers = new Map<string, FakeContainer>();
  images = new FakeImages();
  /** Links of its images, with their targets. */
  readonly links = new Map<string, string>();
  /** What its images say in their configurations. */
  imageConfig: object = {};
  /** Names of its networks. */
  readonly networks = new Set(NETWORKS);
  /** Its answer to `info`. */
  info = INFO;
  /** Members of `HostConfig` that its containers do not get, and warnings of its answer to a create. */
  discards: readonly string[] = [];
  warnings: readonly string[] = [];
  /** Its answer to `version`. */
  version = VERSION;
  /** Logins of pulls. */
  readonly logins: unknown[] = [];
  private readonly replaced = new Map<string, Answer[]>();
  private readonly attached = new Map<string, Set<ServerResponse>>();
  private readonly waiting = new Map<string, Set<ServerResponse>>();
  private created = 0;
  private folder = '';
  private server: Server = createServer();

  /** For the tests of a suite, each of which begins with an empty one at another address. */
  static forEachTest(): FakeDockerEngine {
    const engine = new FakeDockerEngine();
    beforeEach(() => engine.start());
    afterEach(() => engine.stop());
    return engine;
  }

  /** Value for DOCKER_HOST. */
  get host(): string {
    return `unix://${join(this.folder, 'docker.sock')}`;
  }

  /** Replaces the next answers of a route. */
  answerNext(route: string, ...answers: Answer[]): void {
    this.replaced.set(route, [...(this.replaced.get(route) ?? []), ...answers]);
  }

  routes(): string[] {
    return this.calls.map(({ route }) => route);
  }

  /** The only container. */
  container(): FakeContainer {
    const [only] = this.containers.values();
    if (only === undefined || this.containers.size > 1) throw new Error(`${this.containers.size} containers`);
    return only;
  }

  /** Sends raw bytes as output of the only container. */
  send(bytes: Buffer): void {
    for (const response of this.attached.get(this.container().id) ?? []) response.write(bytes);
  }

  /** Destroys the connections of `attach` and `wait`. */
  cutConnections(): void {
    for (const responses of [...this.attached.values(), ...this.waiting.values()]) {
      for (const response of responses) response.destroy();
      responses.clear();
    }
  }

  /** Ends the output of the only container, which goes on. */
  endOutput(): void {
    const { id } = this.container();
    for (const response of this.attached.get(id) ?? []) response.end();
    this.attached.delete(id);
  }

  /** Ends the only container. */
  end(exitCode: number, OOMKilled = false): void {
    this.finish(this.container(), exitCode, OOMKilled);
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async start(): Promise<void> {
    this.calls.length = 0;
    this.logins.length = 0;
    this.created = 0;
    this.images = new FakeImages();
    for (const known of [this.containers, this.replaced, this.attached, this.waiting, this.links])
      known.clear();
    this.imageConfig = {};
    this.networks.clear();
    for (const name of NETWORKS) this.networks.add(name);
    this.info = INFO;
    this.discards = [];
    this.warnings = [];
    this.version = VERSION;
    this.folder = mkdtempSync(join(tmpdir(), 'longshore-fake-'));
    const server = createServer((request, response) => {
      // A request of the test before, to the server before, changes nothing.
      if (server === this.server) void this.receive(request, response);
    });
    this.server = server.listen(join(this.folder, 'docker.sock'));
    await once(server, 'listening');
  }

  private async receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://engine');
    const id = /^\/containers\/(c[0-9]+)/.exec(url.pathname)?.[1] ?? '';
    const path = id === '' ? url.pathname : url.pathname.replace(id, 'ID');
    const isImport = url.searchParams.has('fromSrc');
    const call = {
      route: isImport ? 'POST /images/import' : `${request.method ?? ''} ${path}`,
      query: Object.fromEntries(url.searchParams),
      body: await readBody(request),
    };
    this.calls.push(call);
    const login = request.headers['x-registry-auth'];
    if (typeof login === 'string') this.logins.push(JSON.parse(Buffer.from(login, 'base64url').toString()));
    const answer = this.replaced.get(call.route)?.shift();
    const goOn = (): void => {
      if (id !== '' && !this.containers.has(id)) json(response, 404, { message: `No such container: ${id}` });
      else this.answer(response, call, id);
    };
    if (answer === undefined) goOn();
    else answer(response, call, goOn);
  }

  private answer(response: ServerResponse, call: EngineCall, id: string): void {
    const container = this.containers.get(id);
    if (container !== undefined) {
      this.answerAbout(container, response, call);
    } else if (call.route === 'GET /_ping') {
      response.end('OK');
    } else if (call.route === 'GET /info') {
      json(response, 200, this.info);
    } else if (call.route === 'GET /version') {
      json(response, 200, this.version);
    } else if (call.route === 'POST /containers/create') {
      this.created += 1;
      const made = {
        id: `c${this.created}`,
        create: asCreate(call.body),
        state: NOT_STARTED,
        files: Buffer.alloc(0),
      };
      this.containers.set(made.id, made);
      json(response, 201, { Id: made.id, Warnings: this.warnings });
    } else if (call.route === 'GET /containers/json') {
      json(response, 200, this.list(call.query['filters'] ?? '{}'));
    } else if (call.route.includes(' /networks/')) {
      this.answerNetworks(response, call);
    } else {
      this.answerImages(response, call);
    }
  }

  private answerNetworks(response: ServerResponse, { route, body }: EngineCall): void {
    const name = route === 'POST /networks/create' ? String(Object(body).Name) : (route.split('/')[2] ?? '');
    const isThere = this.networks.has(name);
    if (route.startsWith('POST')) {
      this.networks.add(name);
      if (isThere) json(response, 409, { message: `network with name ${name} already exists` });
      else json(response, 201, { Id: name });
    } else if (isThere) json(response, 200, { Name: name });
    else json(response, 404, { message: `network ${name} not found` });
  }

  private answerImages(response: ServerResponse, { route, query }: EngineCall): void {
    const { images } = this;
    if (route === 'GET /images/json') {
      json(response, 200, images.list());
      return;
    }
    if (route.startsWith('GET /distribution/')) {
      json(response, 200, { Descriptor: {}, Platforms: [] });
      return;
    }
    if (route === 'POST /images/create' || route === 'POST /images/import') {
      const { fromImage, tag = '', repo } = query;
      if (fromImage === undefined && repo === undefined) {
        report(response, { status: images.addNameless() });
        return;
      }
      if (fromImage === undefined) images.add(`${repo}:${tag}`);
      else images.pull(`${fromImage}${tag.includes(':') ? '@' : ':'}${tag}`);
      report(response, { status: 'Pulling' }, { status: 'Downloaded newer image' });
      return;
    }
    const [, method, image = '', what] =
      /^(GET|POST|DELETE) \/images\/(.+?)(?:\/(json|tag))?$/.exec(route) ?? [];
    const isRun = method === 'GET' && RUN_IMAGES.includes(image);
    const found = images.find(image) ?? (isRun ? { Id: imageId(image) } : null);
    if (found === null) {
      json(response, 404, { message: `No such image: ${image}` });
    } else if (what === 'tag') {
      images.add(`${query['repo']}:${query['tag']}`, found.Id);
      response.writeHead(201).end();
    } else if (method === 'DELETE') {
      images.remove(image);
      json(response, 200, []);
    } else {
      json(response, 200, { ...found, Config: this.imageConfig });
    }
  }

  private answerAbout(
    container: FakeContainer,
    response: ServerResponse,
    { route, query, body }: EngineCall,
  ): void {
    switch (route.replace('/containers/ID', '')) {
      case 'POST /attach':
        // As the real one: the connection's end is that of the answer.
        response.useChunkedEncodingByDefault = false;
        response.writeHead(200, { 'Content-Type': 'application/vnd.docker.raw-stream' }).flushHeaders();
        if (container.state === NOT_STARTED || container.state.Running)
          add(this.attached, container.id, response);
        else response.end();
        return;
      case 'POST /start':
        if (container.create.Entrypoint?.[0] === 'longshore-probe') {
          json(response, 400, { message: 'exec: "longshore-probe": executable file not found in $PATH' });
          return;
        }
        container.state = { Running: true, ExitCode: 0, OOMKilled: false };
        response.writeHead(204).end();
        return;
      case 'PUT /archive':
        if (Buffer.isBuffer(body)) container.files = body;
        response.end();
        return;
      case 'GET /logs':
        json(response, 500, { message: 'configured logging driver does not support reading' });
        return;
      case 'HEAD /archive':
        this.answerStat(response, container, query['path'] ?? '');
        return;
      case 'GET /archive':
        json(response, 404, { message: 'Could not find the file /longshore/output.json in container' });
        return;
      case 'POST /wait':
        if (container.state.Running) add(this.waiting, container.id, response);
        else json(response, 200, { StatusCode: container.state.ExitCode });
        return;
      case 'GET /json':
        json(response, 200, { Id: container.id, State: container.state, ...this.described(container) });
        return;
      case 'POST /stop':
        this.finish(container, 143, false);
        response.writeHead(204).end();
        return;
      case 'POST /kill':
        this.finish(container, 137, false);
        response.writeHead(204).end();
        return;
      case 'DELETE ':
        this.finish(container, 137, false);
        this.containers.delete(container.id);
        response.writeHead(204).end();
        return;
      default:
        json(response, 501, { message: `the fake engine does not know ${route}` });
    }
  }

  /** What it says of a container that it has created. */
  private described({ create: { Image, Env, Labels, HostConfig = {} } }: FakeContainer): object {
    const { discards } = this;
    const kept = Object.entries(HostConfig).filter(([name]) => !discards.includes(name));
    const Mounts = (HostConfig.Mounts ?? []).map(({ Target }) => ({ Destination: Target }));
    const Config = { Env, Labels };
    return {
      Image,
      Config,
      HostConfig: Object.fromEntries(kept),
      Mounts: discards.includes('Mounts') ? [] : Mounts,
    };
  }

  /** Before the start a container has nothing but links of its image. */
  private answerStat(response: ServerResponse, { state }: FakeContainer, path: string): void {
    const linkTarget = this.links.get(path);
    const isFolder = path === '/' || (state !== NOT_STARTED && path === '/longshore');
    if (linkTarget === undefined && !isFolder) response.writeHead(404).end();
    else answerStat(response, linkTarget === undefined ? { mode: 2 ** 31 } : { mode: 2 ** 27, linkTarget });
  }

  private finish(container: FakeContainer, exitCode: number, OOMKilled: boolean): void {
    if (container.state.Running)
      container.state = { ...container.state, Running: false, ExitCode: exitCode, OOMKilled };
    for (const response of this.attached.get(container.id) ?? []) response.end();
    for (const response of this.waiting.get(container.id) ?? []) {
      json(response, 200, { StatusCode: container.state.ExitCode });
    }
    this.attached.delete(container.id);
    this.waiting.delete(container.id);
  }

  private list(filters: string): object[] {
    const asked: unknown = Reflect.get(Object(JSON.parse(filters)), 'label');
    const label = Array.isArray(asked) ? asked.map(String) : [];
    const matching = [...this.containers.values()].filter(({ create: { Labels } }) =>
      label.every((entry) => Object.entries(Labels).some(([name, value]) => `${name}=${value}` === entry)),
    );
    return matching.map(({ id, state, create: { Image, Labels } }) => {
      const State = state === NOT_STARTED ? 'created' : state.Running ? 'running' : 'exited';
      const Created = Math.floor(Date.now() / 1000);
      return { Id: id, ImageID: this.images.find(Image)?.Id ?? Image, Created, Labels, State };
    });
  }
}

/** Images that are there although nothing has pulled them. */
const RUN_IMAGES = ['tool', 'sha256:0123'];

const NOT_STARTED: FakeContainer['state'] = { Running: false, ExitCode: 0, OOMKilled: false };

function add(map: Map<string, Set<ServerResponse>>, id: string, response: ServerResponse): void {
  map.set(id, (map.get(id) ?? new Set()).add(response));
}
