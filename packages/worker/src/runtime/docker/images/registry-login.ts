import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { RunFault } from '../../runtime.js';
import { NO_MASK, SecretMask } from '../../../secrets/secret-mask.js';
import type { RegistryLogin } from '../../../service-api/service-api.js';
import { DEFAULT_REGISTRY, localName, type ImageReference } from './image-reference.js';
import { LoginError } from '../engine/engine-verdict.js';

/** The user name by which Docker's credential helpers mark a token instead of a password. */
const IDENTITY_TOKEN = '<token>';

/** Other names of the default registry. */
const DEFAULT_ALIASES: ReadonlySet<string> = new Set(['index.docker.io', 'registry-1.docker.io']);

/**
 * The login as the engine takes it. It is sent to the registry for which it was made and to no other.
 * @throws RunFault when the image is from another registry
 */
export function engineLogin(
  reference: ImageReference,
  { server, username, password }: RegistryLogin,
): object {
  if (registryHost(server) !== registryHost(reference.registry ?? DEFAULT_REGISTRY)) {
    const message = `Image '${localName(reference)}' cannot be pulled: its pull secret is for another registry`;
    throw new RunFault(message, { reported: 'image' });
  }
  if (username === IDENTITY_TOKEN) return { identitytoken: password, serveraddress: server };
  return { username, password, serveraddress: server };
}

/** Hides the login in what an engine or a registry says. */
export function maskOf(login: RegistryLogin | null): SecretMask {
  if (login === null) return NO_MASK;
  const { username, password } = login;
  return new SecretMask([password, Buffer.from(`${username}:${password}`).toString('base64')]);
}

/** Host and port of a registry's name or URL. */
function registryHost(server: string): string {
  const host = server
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '');
  return DEFAULT_ALIASES.has(host) ? DEFAULT_REGISTRY : host;
}

const HELPER_MS = 30_000;
/** How Docker's credential helpers name the default registry. */
const DEFAULT_SERVER = 'https://index.docker.io/v1/';
const HELPER = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/** What `docker login` writes: https://docs.docker.com/reference/cli/docker/login/#configure-the-credential-store. */
interface DockerConfig {
  readonly auths: ReadonlyMap<string, unknown>;
  /** Programs by registry. */
  readonly credHelpers: ReadonlyMap<string, unknown>;
  /** Program of all other registries; undefined: none. */
  readonly credsStore: unknown;
}

/** Logins at registries that the worker has, for all runs. The file is read for each pull: logins may be renewed at any time. */
export class LoginFile {
  /** @param env of credential helpers: PATH, HOME and what they need */
  constructor(
    private readonly path: string,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  /** @throws LoginError when the file cannot be used */
  async check(): Promise<void> {
    await this.read();
  }

  /**
   * The login at the registry of an image.
   * @returns null when there is none
   * @throws LoginError when the file or a credential helper cannot be used
   */
  async find({ registry }: Pick<ImageReference, 'registry'>): Promise<RegistryLogin | null> {
    const { auths, credHelpers, credsStore } = await this.read();
    const host = registryHost(registry ?? DEFAULT_REGISTRY);
    const ofHost = (entries: ReadonlyMap<string, unknown>): unknown =>
      [...entries].find(([server]) => registryHost(server) === host)?.[1];
    const helper = ofHost(credHelpers) ?? credsStore;
    const server = host === DEFAULT_REGISTRY ? DEFAULT_SERVER : host;
    if (helper !== undefined) {
      const login = await this.ask(helper, server);
      if (login !== null) return login;
    }
    const { auth, username, password, identitytoken } = Object(ofHost(auths));
    if (typeof identitytoken === 'string' && identitytoken !== '')
      return { server, username: '<token>', password: identitytoken };
    if (typeof auth === 'string' && auth !== '') {
      const [, name, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(auth, 'base64').toString()) ?? [];
      if (name === undefined || secret === undefined)
        throw new LoginError(`the login for ${host} in ${this.path} is not USER:PASSWORD in base64`);
      return { server, username: name, password: secret };
    }
    if (typeof username === 'string' && typeof password === 'string') return { server, username, password };
    return null;
  }

  private async read(): Promise<DockerConfig> {
    let config: unknown;
    try {
      config = JSON.parse(await readFile(this.path, 'utf8'));
    } catch (error) {
      // The words of the parser may quote a login.
      const reason = error instanceof SyntaxError ? 'it is not JSON' : String(Object(error).code);
      throw new LoginError(`the file of registry logins ${this.path} cannot be read: ${reason}`, {
        cause: error,
      });
    }
    const { auths, credHelpers, credsStore } = Object(config);
    return { auths: entriesOf(auths), credHelpers: entriesOf(credHelpers), credsStore };
  }

  /** Asks a credential helper: https://github.com/docker/docker-credential-helpers. */
  private async ask(helper: unknown, server: string): Promise<RegistryLogin | null> {
    if (typeof helper !== 'string' || !HELPER.test(helper))
      throw new LoginError(`${this.path} names a credential helper that is not one`);
    const program = `docker-credential-${helper}`;
    const asked = promisify(execFile)(program, ['get'], { env: this.env, timeout: HELPER_MS });
    asked.child.stdin?.on('error', () => undefined).end(server);
    try {
      const { Username: username, Secret: password } = Object(JSON.parse((await asked).stdout));
      if (typeof username === 'string' && typeof password === 'string') return { server, username, password };
    } catch (error) {
      const { stdout, code } = Object(error);
      if (typeof stdout === 'string' && stdout.includes('credentials not found')) return null;
      // Its words may hold the login.
      throw new LoginError(`${program} gave no login for ${server}${code === undefined ? '' : ` (${code})`}`);
    }
    throw new LoginError(`${program} gave no login for ${server}`);
  }
}

function entriesOf(value: unknown): ReadonlyMap<string, unknown> {
  return new Map(typeof value === 'object' && value !== null ? Object.entries(value) : []);
}
