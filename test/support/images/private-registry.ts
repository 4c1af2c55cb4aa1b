import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestEngine } from './docker-engine.js';
import { freePort } from '../programs/free-port.js';
import { launch, until, type TestProcess } from '../service-process.js';

/** The only login of the registry. */
export const REGISTRY_LOGIN = { username: 'puller', password: 'registry-password-of-the-tests' } as const;

/** The login in an htpasswd file, made by `htpasswd -B`. */
const HTPASSWD = 'puller:$2b$05$abcdefghijklmnopqrstuufO.RRd/UeIxHas2Jd/ElzPgydwn0Lae\n';

/** A registry that gives images to those with the login alone. It ends with the test file. */
export class PrivateRegistry {
  private constructor(
    private readonly engine: TestEngine,
    private readonly config: string,
    /** `127.0.0.1:port`, the first part of references to its images. */
    readonly address: string,
    private process: TestProcess,
  ) {}

  static async start(engine: TestEngine): Promise<PrivateRegistry> {
    const address = `127.0.0.1:${await freePort()}`;
    const config = join(engine.folder, 'private-registry.yml');
    const htpasswd = join(engine.folder, 'htpasswd');
    writeFileSync(htpasswd, HTPASSWD);
    const storage = { filesystem: { rootdirectory: join(engine.folder, 'private-registry') } };
    const auth = { htpasswd: { realm: 'tests', path: htpasswd } };
    // JSON is YAML.
    writeFileSync(config, JSON.stringify({ version: 0.1, storage, auth, http: { addr: address } }));
    const registry = new PrivateRegistry(engine, config, address, await serve(config));
    await registry.untilReady();
    return registry;
  }

  /** Moves a local image here, so that the engine does not have it any more. @returns its reference */
  async publish(local: string, name: string): Promise<string> {
    const { docker } = this.engine;
    const repo = `${this.address}/private/${name}`;
    await docker.getImage(local).tag({ repo, tag: 'latest' });
    const report = await docker
      .getImage(repo)
      .push({ tag: 'latest', authconfig: { ...REGISTRY_LOGIN, serveraddress: this.address } });
    await new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(report, (error) => (error ? reject(error) : resolve()));
    });
    await this.engine.removeImage(local);
    await this.engine.removeImage(`${repo}:latest`);
    return `${repo}:latest`;
  }

  async stop(): Promise<void> {
    this.process.signal('SIGTERM');
    await this.process.exited;
  }

  async startAgain(): Promise<void> {
    this.process = await serve(this.config);
    await this.untilReady();
  }

  private untilReady(): Promise<void> {
    const ask = () =>
      fetch(`http://${this.address}/v2/`).then(
        ({ status }) => status === 401,
        () => false,
      );
    return until(ask, 'the private registry answers');
  }
}

function serve(config: string): Promise<TestProcess> {
  return launch(['docker-registry', 'serve', config]);
}
