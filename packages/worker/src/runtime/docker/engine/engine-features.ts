import type Dockerode from 'dockerode';
import { withLimit } from './docker-engine.js';

/** What an engine can do, and has. */
export interface EngineFeatures {
  /** The log driver `local`. */
  readonly hasLog: boolean;
  /** A first process for containers, which reaps zombies. */
  readonly hasInit: boolean;
  /** CPU cores. */
  readonly cores: number;
  /** Whether users of containers are others on the machine (`userns-remap`). */
  readonly isRemapped: boolean;
}

/**
 * Asks an engine what it can do. Podman cannot keep a log of limited size, and does not say whether it has a first process for
 * containers.
 * @param limitMs of the request, in milliseconds
 */
export async function readFeatures(engine: Dockerode, limitMs: number): Promise<EngineFeatures> {
  const info = await withLimit(limitMs, 'info', (): Promise<unknown> => engine.info());
  const { Plugins, InitBinary, NCPU, SecurityOptions } = Object(info);
  const drivers: unknown = Object(Plugins).Log;
  return {
    hasLog: Array.isArray(drivers) && drivers.includes('local'),
    hasInit: typeof InitBinary === 'string' && InitBinary !== '',
    isRemapped: Array.isArray(SecurityOptions) && SecurityOptions.includes('name=userns'),
    cores: typeof NCPU === 'number' && NCPU > 0 ? NCPU : 1,
  };
}
