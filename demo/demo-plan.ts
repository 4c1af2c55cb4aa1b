import { createHash } from 'node:crypto';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { packageFolder } from '@longshore/common/settings/package-version';
import type { Settings } from '../src/config/settings.js';

/** Where everything of a demo is, and what its children are told. */
export interface DemoPlan {
  readonly dataDir: string;
  /** Folder of the example images. */
  readonly imagesDir: string;
  readonly host: string;
  /** 0 when the wanted one is taken. */
  readonly port: number;
  readonly workerId: string;
}

/**
 * Plans a demo from the service's settings.
 * @param env SERVICE_WORKER_IMAGES_DIR names another folder of example images
 */
export async function planDemo(settings: Settings, env: NodeJS.ProcessEnv): Promise<DemoPlan> {
  const { host, port } = settings;
  const dataDir = resolve(settings.dataDir);
  const imagesDir = env['SERVICE_WORKER_IMAGES_DIR'] ?? '';
  return {
    dataDir,
    imagesDir:
      imagesDir === '' ? join(packageFolder(import.meta.dirname), 'examples', 'images') : resolve(imagesDir),
    host,
    port: port !== 0 && (await isTaken(host, port)) ? 0 : port,
    // Each data directory has a worker of its own, the same in every demo, which so finds what an earlier one left.
    workerId: `demo-${createHash('sha256').update(dataDir).digest('hex').slice(0, 8)}`,
  };
}

/** Environment of the service: on the embedded PostgreSQL with the key of the data directory, whatever else is set. */
export function serviceEnvironment(plan: DemoPlan, env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...env,
    SERVICE_HOST: plan.host,
    SERVICE_PORT: String(plan.port),
    SERVICE_DATA_DIR: plan.dataDir,
    SERVICE_RELOAD: 'false',
    // Set and empty: not even a file named .env can fill them in.
    SERVICE_API_KEYS: '',
    DATABASE_URL: '',
  };
}

/** Environment of the worker. */
export function workerEnvironment(
  plan: DemoPlan,
  env: NodeJS.ProcessEnv,
  service: { readonly url: string; readonly apiKey: string; readonly runtime: string },
): NodeJS.ProcessEnv {
  return {
    SERVICE_WORKER_TICK: '0.5',
    // The names of the example images begin with localhost/, so that no registry has them.
    SERVICE_WORKER_LOCAL_REGISTRIES: 'true',
    SERVICE_WORKER_DRAIN: '1',
    ...env,
    SERVICE_WORKER_IMAGES_DIR: plan.imagesDir,
    SERVICE_URL: service.url,
    SERVICE_API_KEY: service.apiKey,
    SERVICE_WORKER_ID: plan.workerId,
    SERVICE_WORKER_STATE_DIR: join(plan.dataDir, 'worker'),
    SERVICE_WORKER_RUNTIME: service.runtime,
  };
}

function isTaken(host: string, port: number): Promise<boolean> {
  return new Promise((answer) => {
    const server = createServer();
    server.once('error', (error) => answer('code' in error && error.code === 'EADDRINUSE'));
    server.listen(port, host, () => server.close(() => answer(false)));
  });
}
