import assert from 'node:assert/strict';
import { join } from 'node:path';
import { ended, type CliEnd } from './cli.js';
import {
  launch,
  makeDataDir,
  PROJECT,
  startService,
  type ServiceProcess,
  type TestProcess,
} from '../service-process.js';
import { endWorker, ScriptImages } from '../workers/worker-process.js';

const ADMIN = 'python-admin-key-of-the-tests';
const WORKER = 'python-worker-key-of-the-tests';

/** Starts a program in Python that may import `longshore`. */
export function startPython(
  program: string,
  env: Readonly<Record<string, string>> = {},
): Promise<TestProcess> {
  return launch(['python3', '-c', `from longshore import *\n${program}`], {
    env: { PYTHONPATH: join(PROJECT, 'packages', 'python'), PYTHONDONTWRITEBYTECODE: '1', ...env },
  });
}

/** Runs such a program to its end. */
export async function runPython(program: string, env?: Readonly<Record<string, string>>): Promise<CliEnd> {
  return ended(await startPython(program, env));
}

/** Runs a program that has a client of the service in `api`. @returns what it printed */
export async function withClient(
  url: string,
  program: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { code, stdout, output } = await runPython(`api = Longshore()\n${program}`, {
    SERVICE_URL: url,
    SERVICE_API_KEY: 'the-key',
    ...env,
  });
  assert.equal(code, 0, output);
  return stdout;
}

/** A service, and a worker that executes shell scripts as images, for programs in Python. */
export class PythonService {
  private constructor(
    private readonly service: ServiceProcess,
    private readonly worker: TestProcess,
    /** Has gates, which scripts wait for. */
    readonly images: ScriptImages,
  ) {}

  /** @param scripts by the image's name, made with the gates of the images */
  static async start(
    scripts: (images: ScriptImages) => Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<PythonService> {
    const keys = `admin:${ADMIN},worker:${WORKER}`;
    const service = await startService({
      dataDir: await makeDataDir(),
      env: { SERVICE_API_KEYS: keys, ...env },
    });
    const images = await ScriptImages.make();
    for (const [name, script] of Object.entries(scripts(images))) await images.add(name, script);
    const limits = { SERVICE_WORKER_MAX_RUNS: '8', SERVICE_WORKER_CPU: '8' };
    const worker = await images.startWorker({ url: service.url, key: WORKER, id: 'w-1', env: limits });
    await worker.untilOutput(/registered at the service/);
    return new PythonService(service, worker, images);
  }

  /** Runs a program that has a client in `api`. @returns what it printed */
  printed(program: string, env: Readonly<Record<string, string>> = {}): Promise<string> {
    return withClient(this.service.url, program, { SERVICE_API_KEY: ADMIN, ...env });
  }

  async stop(): Promise<void> {
    await endWorker(this.worker);
    assert.equal(await this.service.stop(), 0, this.service.output);
  }
}
