import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  createReadStream,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type Docker from 'dockerode';
import type { BuiltStage } from './image-build.js';
import type { TestEngine } from './docker-engine.js';
import { until } from '../service-process.js';

const BUSYBOX = '/bin/busybox';

/** Programs that the stand-in for the base image has beside node. */
const APPLETS = ['sh', 'env', 'cat', 'ls', 'id'];

/**
 * Builds the final stages of the Dockerfile in an engine without a network: the image that they come from is made of
 * this machine's node, and the stages that need npm are the folders in which they were executed before.
 */
export class ImagesInEngine {
  private constructor(
    private readonly engine: TestEngine,
    private readonly context: string,
  ) {}

  /**
   * @param dockerfile its text; the stages before `base` are taken from `stages`
   * @param stages executed stages by name, and the paths of each that the later stages copy
   */
  static async prepare(
    engine: TestEngine,
    dockerfile: string,
    stages: readonly { readonly built: BuiltStage; readonly paths: readonly string[] }[],
  ): Promise<ImagesInEngine> {
    const context = join(engine.folder, 'images');
    mkdirSync(context);
    const images = new ImagesInEngine(engine, context);
    const at = dockerfile.search(/^FROM \S+ AS base$/m);
    const base = /^FROM (\S+) AS base$/m.exec(dockerfile)?.[1];
    if (base === undefined) throw new Error('the Dockerfile has no stage base');
    images.makeBase(join(context, 'base-image'));
    await images.import(join(context, 'base-image'), ['.'], base);
    const executed: string[] = [];
    for (const { built, paths } of stages) {
      const { name } = built.stage;
      await images.import(built.root, paths, `longshore-test/${name}:latest`);
      executed.push(`FROM longshore-test/${name}:latest AS ${name}`);
    }
    writeFileSync(join(context, 'Dockerfile'), `${executed.join('\n')}\n\n${dockerfile.slice(at)}`);
    return images;
  }

  /** Builds one of the final stages. @returns its reference */
  async build(target: string): Promise<string> {
    const reference = `longshore-test/${target}:latest`;
    const { docker } = this.engine;
    const options = { t: reference, target, forcerm: true };
    await this.follow(await docker.buildImage({ context: this.context, src: ['Dockerfile'] }, options));
    return reference;
  }

  private async import(root: string, paths: readonly string[], reference: string): Promise<void> {
    const [repo, tag] = reference.split(':');
    const archive = join(this.context, `${basename(root)}.tar`);
    execFileSync('tar', ['-C', root, '--owner=0', '--group=0', '-cf', archive, ...paths]);
    await this.follow(await this.engine.docker.importImage(createReadStream(archive), { repo, tag }));
    rmSync(archive);
  }

  /** node with its libraries, a few commands, and the user `node`. */
  private makeBase(root: string): void {
    for (const folder of ['bin', 'usr/bin', 'usr/local/bin', 'etc', 'tmp', 'home/node', 'var/lib']) {
      mkdirSync(join(root, folder), { recursive: true });
    }
    chmodSync(join(root, 'tmp'), 0o1777);
    const libraries = execFileSync('ldd', [process.execPath], { encoding: 'utf8' });
    for (const [path] of libraries.matchAll(/\/\S+/g)) {
      mkdirSync(join(root, dirname(path)), { recursive: true });
      copyFileSync(path, join(root, path));
    }
    copyFileSync(process.execPath, join(root, 'usr/local/bin/node'));
    copyFileSync(BUSYBOX, join(root, 'bin/busybox'));
    for (const name of APPLETS) symlinkSync('/bin/busybox', join(root, 'usr/bin', name));
    symlinkSync('/bin/busybox', join(root, 'bin/sh'));
    writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n');
    writeFileSync(join(root, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
  }

  private async follow(report: NodeJS.ReadableStream): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.engine.docker.modem.followProgress(report, (error) => (error ? reject(error) : resolve()));
    });
  }
}

/** What a container of an image does and says. */
export class ImageContainer {
  private constructor(private readonly container: Docker.Container) {}

  static async start(docker: Docker, options: Docker.ContainerCreateOptions): Promise<ImageContainer> {
    const container = await docker.createContainer(options);
    await container.start();
    return new ImageContainer(container);
  }

  inspect(): Promise<Docker.ContainerInspectInfo> {
    return this.container.inspect();
  }

  /** Waits until the engine's health check says so. @throws Error with its output when the container ends first */
  async until(health: 'healthy' | 'unhealthy'): Promise<void> {
    let ended = '';
    await until(async () => {
      const { Running, ExitCode, Health } = (await this.inspect()).State;
      if (!Running) ended = `it ended with exit code ${ExitCode}: ${await this.output()}`;
      return ended !== '' || Health?.Status === health;
    }, `the container is ${health}`);
    if (ended !== '') throw new Error(ended);
  }

  /** Everything it printed so far. */
  async output(): Promise<string> {
    const log = await this.container.logs({ stdout: true, stderr: true, follow: false });
    return log.toString('utf8');
  }

  /** `/proc/PID/status` of its first process, by field. */
  async process(): Promise<ReadonlyMap<string, string>> {
    const { Pid } = (await this.inspect()).State;
    const lines = readFileSync(`/proc/${Pid}/status`, 'utf8').split('\n');
    return new Map(
      lines.map((line) => [line.split(':')[0] ?? '', line.split(':').slice(1).join(':').trim()]),
    );
  }

  /** Runs a command in it. @param env on top of the container's own */
  async run(
    command: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly code: number | null; readonly output: string }> {
    const exec = await this.container.exec({
      Cmd: [...command],
      Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      AttachStdout: true,
      AttachStderr: true,
    });
    let output = '';
    for await (const piece of await exec.start({})) output += piece.toString();
    return { code: (await exec.inspect()).ExitCode, output };
  }

  /** Waits for its end. @returns the exit code */
  async ended(): Promise<number> {
    return (await this.container.wait()).StatusCode;
  }

  /** SIGTERM, and SIGKILL after a while. @returns the exit code, 137 for one that had to be killed */
  async stop(seconds: number): Promise<number> {
    await this.container.stop({ t: seconds });
    return (await this.inspect()).State.ExitCode;
  }
}
