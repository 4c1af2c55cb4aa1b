import type Dockerode from 'dockerode';
import { oneLine } from '@longshore/common/shown-text';
import { MachineUnable } from '../../runtime.js';
import type { Unable } from '../../../service-api/service-api.js';
import { withLimit } from '../engine/docker-engine.js';

/** Words for limits that an engine discards. */
const DISCARDS: Readonly<Record<Exclude<Unable['ability'], 'gpus'>, string>> = {
  ram_limit: 'limits of memory',
  cpu_limit: 'limits of CPU',
  pids_limit: 'limits of processes',
};

/** The sentence for an operator about limits that an engine discards. */
export function discarded(ability: Exclude<Unable['ability'], 'gpus'>): string {
  return `the container engine discards ${DISCARDS[ability]}`;
}

/** Warnings of one container, at most, and characters of each. */
const MOST = { warnings: 5, length: 500 };

/** A container that lacks what the run cannot be without. The message is fit for the run's error_message. */
export class NotAsAsked extends Error {}

const NO_GPUS = 'the container engine creates containers without the GPUs that are asked for';

/**
 * Compares what a container was to get with what the engine says that it has.
 * @param said the engine's own warnings
 * @returns warnings about limits that it has not
 * @throws MachineUnable when it lacks GPUs
 * @throws NotAsAsked when it is not in its network, or lacks a mount
 */
export async function checkCreated(
  container: Dockerode.Container,
  asked: Dockerode.ContainerCreateOptions,
  said: readonly string[],
  limitMs: number,
): Promise<readonly string[]> {
  const { HostConfig: wanted = {} } = asked;
  const { Memory, NanoCpus, DeviceRequests, NetworkMode: network, Mounts } = wanted;
  // Whether a limit of processes is kept, the engine says for all containers.
  if ([Memory, NanoCpus, DeviceRequests, network, Mounts].every((one) => one === undefined))
    return toLines(said);
  const found = await withLimit(limitMs, 'inspect', (abortSignal) => container.inspect({ abortSignal }));
  const has = Object(Object(found).HostConfig);
  if ((DeviceRequests ?? []).length > 0 && !hasDevices(has))
    throw new MachineUnable('gpus', `The container could not be created: ${NO_GPUS}`, NO_GPUS);
  const networks = Object.keys(Object(Object(Object(found).NetworkSettings).Networks));
  if (network !== undefined && has.NetworkMode !== network && !networks.includes(network))
    throw new NotAsAsked(
      'The container could not be created: the container engine put it into another network',
    );
  const targets = listOf(Object(found).Mounts).map((mount) => Object(mount).Destination);
  const missing = (Mounts ?? []).filter(({ Target }) => !targets.includes(Target));
  if (missing.length > 0)
    throw new NotAsAsked('The container could not be created: the container engine left out a mount');
  const lacking = [
    ...(isLess(Memory, has.Memory) ? ['ram_limit' as const] : []),
    ...(isLess(NanoCpus, has.NanoCpus) && !isPositive(has.CpuQuota) ? ['cpu_limit' as const] : []),
    ...(isLess(wanted.PidsLimit, has.PidsLimit) ? ['pids_limit' as const] : []),
  ];
  return toLines(said.length > 0 ? said : lacking.map(discarded));
}

function toLines(warnings: readonly string[]): string[] {
  return warnings.slice(0, MOST.warnings).map((words) => oneLine(words).slice(0, MOST.length));
}

/** @param has the host configuration of a created container; engines show devices by CDI in different places */
function hasDevices(has: { DeviceRequests?: unknown; Devices?: unknown; CDIDevices?: unknown }): boolean {
  return [has.DeviceRequests, has.Devices, has.CDIDevices].some((list) => listOf(list).length > 0);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Whether a limit was asked for and none is there. */
function isLess(wanted: number | null | undefined, has: unknown): boolean {
  return isPositive(wanted) && !isPositive(has);
}

function isPositive(value: unknown): boolean {
  return typeof value === 'number' && value > 0;
}
