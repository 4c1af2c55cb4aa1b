import type { JsonObject } from '@longshore/common/json/json-value';
import type { ImageFolder } from './image-folder.js';

/** Paths of /proc and /sys that a container does not see or cannot write, as container engines set them. */
const MASKED = [
  '/proc/acpi',
  '/proc/kcore',
  '/proc/keys',
  '/proc/timer_list',
  '/proc/sched_debug',
  '/sys/firmware',
];
const READONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];
const CAPABILITIES = ['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_KILL', 'CAP_SETGID', 'CAP_SETUID'];

export interface OciContainer {
  readonly image: ImageFolder;
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What the container sees of the node: the first is the folder with its inputs and outputs, the others are the mounts and files of the run. */
  readonly binds: readonly Bind[];
}

interface Bind {
  readonly source: string;
  readonly path: string;
  readonly mode: 'ro' | 'rw';
}

/**
 * The configuration of a container for runc. Its image is read-only, /tmp is in memory, the network is the node's. The
 * account of the job is root in it, unless that is root already.
 */
export function ociConfig({ image, command, env, binds }: OciContainer): JsonObject {
  const uid = process.getuid?.() ?? 0;
  const gid = process.getgid?.() ?? 0;
  const isRoot = uid === 0;
  // The namespace in which a job makes mounts has that account as its root already.
  const hasRoot = binds.length > 1;
  // One account is mapped, so an image's own account exists for root alone.
  const user = isRoot ? (image.user ?? { uid: 0, gid: 0 }) : { uid: 0, gid: 0 };
  const namespaces = ['mount', 'pid', 'ipc', 'uts', ...(isRoot ? [] : ['user'])];
  return {
    ociVersion: '1.0.2',
    process: {
      terminal: false,
      user,
      args: [...command],
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd: image.workDir,
      capabilities: { bounding: CAPABILITIES, effective: CAPABILITIES, permitted: CAPABILITIES },
      noNewPrivileges: true,
    },
    root: { path: image.path, readonly: true },
    hostname: 'longshore',
    mounts: [...systemMounts(isRoot), ...binds.map(({ source, path, mode }) => bind(source, path, [mode]))],
    linux: {
      namespaces: namespaces.map((type) => ({ type })),
      maskedPaths: MASKED,
      readonlyPaths: READONLY,
      ...(isRoot
        ? {}
        : {
            uidMappings: [{ containerID: 0, hostID: hasRoot ? 0 : uid, size: 1 }],
            gidMappings: [{ containerID: 0, hostID: hasRoot ? 0 : gid, size: 1 }],
          }),
    },
  };
}

function systemMounts(isRoot: boolean): JsonObject[] {
  const inMemory = ['nosuid', 'nodev', 'mode=1777'];
  return [
    { destination: '/proc', type: 'proc', source: 'proc' },
    { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'strictatime', 'mode=755'] },
    {
      destination: '/dev/pts',
      type: 'devpts',
      source: 'devpts',
      options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620'],
    },
    { destination: '/dev/shm', type: 'tmpfs', source: 'shm', options: inMemory },
    { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: inMemory },
    // Without a network namespace of its own, an ordinary user cannot mount a new sysfs.
    isRoot
      ? { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'ro'] }
      : bind('/sys', '/sys', ['nosuid', 'noexec', 'nodev', 'ro']),
  ];
}

function bind(source: string, destination: string, options: readonly string[]): JsonObject {
  return { destination, type: 'bind', source, options: ['rbind', ...options] };
}
