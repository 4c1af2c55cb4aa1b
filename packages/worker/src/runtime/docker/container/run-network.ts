import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { engineMessage, engineStatus, withLimit } from '../engine/docker-engine.js';
import { EngineFault } from '../../runtime.js';

/** The network that the worker creates when SERVICE_WORKER_NETWORK does not say otherwise. */
export const OWN_NETWORK = 'longshore';

/** Device of this network on the engine's host. It keeps the engine from creating the network twice. */
export const OWN_BRIDGE = 'longshore0';

const CONFLICT_TRIES = 50;
const CONFLICT_PAUSE_MS = 100;

/** A network of the engine, and the setting that names it. */
export interface NamedNetwork {
  readonly name: string;
  readonly setting: string;
}

/**
 * Sees to it that the network of runs exists: its own is created, any other one must be there. Several workers may do so at once.
 * @throws EngineFault that names the setting when the engine does not have it
 */
export async function ensureNetwork(
  engine: Dockerode,
  network: NamedNetwork,
  limitMs: number,
): Promise<void> {
  const { name } = network;
  for (let tries = 1; !(await hasNetwork(engine, name, limitMs)); tries++) {
    if (name !== OWN_NETWORK) throw missing(network, 'the container engine does not have it');
    try {
      await createOwnNetwork(engine, limitMs);
      return;
    } catch (error) {
      // Another worker is about to create it: the engine refuses a second one before it shows the first one.
      const isConflict = [403, 409].includes(engineStatus(error) ?? 0);
      if (!isConflict || tries === CONFLICT_TRIES) throw missing(network, engineMessage(error), error);
      await sleep(CONFLICT_PAUSE_MS);
    }
  }
}

async function createOwnNetwork(engine: Dockerode, limitMs: number): Promise<void> {
  await withLimit(limitMs, 'network create', (abortSignal) =>
    engine.createNetwork({
      Name: OWN_NETWORK,
      CheckDuplicate: true,
      Driver: 'bridge',
      Options: {
        'com.docker.network.bridge.enable_icc': 'false',
        'com.docker.network.bridge.name': OWN_BRIDGE,
      },
      abortSignal,
    }),
  );
}

async function hasNetwork(engine: Dockerode, name: string, limitMs: number): Promise<boolean> {
  try {
    await withLimit(limitMs, 'network inspect', () => engine.getNetwork(name).inspect());
    return true;
  } catch (error) {
    if (engineStatus(error) === 404) return false;
    throw new EngineFault('The container could not be created: the container engine did not answer', {
      cause: error,
    });
  }
}

function missing({ name, setting }: NamedNetwork, why: string, cause?: unknown): EngineFault {
  const message = `The container could not be created: its network '${name}' (${setting}) cannot be used: ${why}`;
  return new EngineFault(message, { cause });
}
