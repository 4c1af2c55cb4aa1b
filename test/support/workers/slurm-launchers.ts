import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { writeProgramContainer } from '../images/program-container.js';
import { RunViews } from '../runs/run-views.js';
import { startService, until, type ServiceProcess, type TestProcess } from '../service-process.js';
import { SlurmCluster } from './slurm-cluster.js';
import { senderTo, type Send } from '../app/test-app.js';
import { ScriptImages } from './worker-process.js';

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';
const WORKER_KEY = 'e2e-worker-key-of-the-tests';

/** The worker timeout of the service, in seconds. */
const TIMEOUT_S = 8;

/** A service, a Slurm, and launchers between them, whose images are programs of a folder. */
export class SlurmLaunchers {
  readonly send: Send;
  readonly runs: RunViews;
  private readonly launchers: TestProcess[] = [];

  private constructor(
    readonly cluster: SlurmCluster,
    readonly service: ServiceProcess,
    readonly images: ScriptImages,
  ) {
    this.send = senderTo(service.url, ADMIN_KEY);
    this.runs = new RunViews(this.send);
  }

  /** @param secretsKey SERVICE_SECRETS_KEY of the service. @param env further variables of the service */
  static async start(
    secretsKey: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<SlurmLaunchers> {
    const cluster = await SlurmCluster.start();
    const images = await ScriptImages.make();
    mkdirSync(join(cluster.folder, 'shared'));
    writeProgramContainer(join(images.folder, '..', 'container'));
    const service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN_KEY},worker:${WORKER_KEY}`,
        SERVICE_WORKER_TIMEOUT: String(TIMEOUT_S),
        SERVICE_REAPER_INTERVAL: '0.3',
        SERVICE_SECRETS_KEY: secretsKey,
        ...env,
      },
    });
    return new SlurmLaunchers(cluster, service, images);
  }

  /** Starts the worker program as a launcher. */
  async launch(id: string, env: Readonly<Record<string, string>> = {}): Promise<TestProcess> {
    const { folder, env: slurm } = this.cluster;
    const launcher = await this.images.startWorker({
      url: this.service.url,
      key: WORKER_KEY,
      id,
      env: {
        ...slurm,
        SERVICE_WORKER_RUNTIME: 'slurm',
        SERVICE_WORKER_SLURM_DIR: join(folder, 'shared'),
        SERVICE_WORKER_SLURM_CONTAINER: join(this.images.folder, '..', 'container'),
        SERVICE_WORKER_SLURM_POLL: '0.3',
        ...env,
      },
    });
    this.launchers.push(launcher);
    return launcher;
  }

  /** Waits until neither Slurm nor the shared folder has anything of ours, then ends the launchers. */
  async clear(): Promise<void> {
    await until(
      async () => (await this.leftovers()).length === 0,
      `nothing is left: ${await this.printed()}`,
    );
    for (const launcher of this.launchers.splice(0)) {
      launcher.signal('SIGTERM');
      await launcher.exited;
    }
    assert.deepEqual(await this.leftovers(), []);
  }

  async stop(): Promise<void> {
    await this.service.kill('SIGTERM');
    await this.cluster.stop();
  }

  /** What the launchers printed last. */
  async printed(): Promise<string> {
    const logs = this.launchers.map(({ output }) => output.slice(-3000));
    return [...(await this.leftovers()), ...logs].join('\n');
  }

  private async leftovers(): Promise<string[]> {
    const shared = join(this.cluster.folder, 'shared');
    const folders = readdirSync(shared).flatMap((name) => readdirSync(join(shared, name)));
    return [...(await this.cluster.jobs()), ...folders];
  }
}
