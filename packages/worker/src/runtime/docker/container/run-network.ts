import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { engineMessage, engineStatus, withLimit } from '../engine/docker-engine.js';
import { EngineFault, RunFault } from '../../runtime.js';

/** The network that the worker creates when SERVICE_WORKER_NETWORK does not say otherwise. */
export const OWN_NETWORK = 'longshore';

/** Device of this network on the engine's host. It keeps the engine from creating the network twice. */
export const OWN_BRIDGE = 'longshore0';

const MTU = 'com.docker.network.driver.mtu';

/** The API 1.46 is that of Docker 27, which keeps containers apart over IPv6 unless its operator says otherwise; older ones only over IPv4. */
const API_WITH_IPV6_RULES = 46;

const CONFLICT_TRIES = 50;
const CONFLICT_PAUSE_MS = 100;

export interface NetworkOptions {
  /** SERVICE_WORKER_NETWORK; absent: the default network of the engine. */
  readonly network?: string;
  /** SERVICE_WORKER_NETWORKS: networks of the engine by the names that runs choose; absent: none. */
  readonly networks?: ReadonlyMap<string, string>;
}

/** A network of the engine, and the setting that names it. */
interface NamedNetwork {
  readonly name: string;
  readonly setting: string;
}

/** The networks of the engine that containers are in. */
export class RunNetworks {
  constructor(
    private readonly options: NetworkOptions,
    private readonly limitMs: number,
  ) {}

  /** @throws EngineFault that names a network of SERVICE_WORKER_NETWORKS that the engine does not have */
  async check(engine: Dockerode): Promise<void> {
    for (const name of this.options.networks?.keys() ?? []) await this.ensure(engine, name);
  }

  /**
   * Sees to it that a network exists: the worker's own is created, any other one must be there.
   * @param chosen by the run; null: the worker's
   * @returns the network of the engine; undefined: the engine's default
   * @throws RunFault when the worker does not have it
   * @throws EngineFault that names the setting when the engine does not have it
   */
  async ensure(engine: Dockerode, chosen: string | null = null): Promise<string | undefined> {
    const { network, networks } = this.options;
    const name = chosen === null ? network : chosen === 'none' ? chosen : networks?.get(chosen);
    // Podman does not list it among its networks.
    if (name === 'none') return name;
    if (chosen !== null && name === undefined)
      throw new RunFault(`This worker does not have the network '${chosen}'`);
    const setting = chosen === null ? 'SERVICE_WORKER_NETWORK' : 'SERVICE_WORKER_NETWORKS';
    if (name !== undefined) await ensureNetwork(engine, { name, setting }, this.limitMs);
    return name;
  }
}

/** Several workers may do so at once. */
async function ensureNetwork(engine: Dockerode, network: NamedNetwork, limitMs: number): Promise<void> {
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

/** As the operator has set up the engine's default network: with the same MTU, and with IPv6 if that has it and the engine filters it. */
async function createOwnNetwork(engine: Dockerode, limitMs: number): Promise<void> {
  const { mtu, hasIpv6 } = await readDefaultNetwork(engine, limitMs);
  await withLimit(limitMs, 'network create', (abortSignal) =>
    engine.createNetwork({
      Name: OWN_NETWORK,
      CheckDuplicate: true,
      Driver: 'bridge',
      Options: {
        'com.docker.network.bridge.enable_icc': 'false',
        'com.docker.network.bridge.name': OWN_BRIDGE,
        ...(mtu === null ? {} : { [MTU]: mtu }),
      },
      // Not every engine has addresses of its own for IPv6.
      ...(hasIpv6 && {
        EnableIPv6: true,
        IPAM: { Driver: 'default', Config: [{ Subnet: privateSubnet() }] },
      }),
      abortSignal,
    }),
  );
}

/** An engine without such a network has no say. */
async function readDefaultNetwork(
  engine: Dockerode,
  limitMs: number,
): Promise<{ readonly mtu: string | null; readonly hasIpv6: boolean }> {
  try {
    const found: unknown = await withLimit(limitMs, 'network inspect', () =>
      engine.getNetwork('bridge').inspect(),
    );
    const { Options, EnableIPv6 }: { Options?: unknown; EnableIPv6?: unknown } = Object(found);
    const mtu: unknown = Reflect.get(Object(Options), MTU);
    const hasIpv6 = EnableIPv6 === true && (await filtersIpv6(engine, limitMs));
    return { mtu: typeof mtu === 'string' ? mtu : null, hasIpv6 };
  } catch (error) {
    if (engineStatus(error) === 404) return { mtu: null, hasIpv6: false };
    throw error;
  }
}

async function filtersIpv6(engine: Dockerode, limitMs: number): Promise<boolean> {
  const said: unknown = await withLimit(limitMs, 'version', () => engine.version());
  const [, minor] = /^1\.([0-9]+)$/.exec(String(Object(said).ApiVersion)) ?? [];
  return Number(minor) >= API_WITH_IPV6_RULES;
}

/** A random one of those that are free for local use (RFC 4193). */
function privateSubnet(): string {
  const id = randomBytes(5).toString('hex');
  return `fd${id.slice(0, 2)}:${id.slice(2, 6)}:${id.slice(6)}::/64`;
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
