import { randomUUID } from 'node:crypto';
import { mkdtemp, open, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Dockerode from 'dockerode';
import type { WorkerIdentity } from '../../../process/worker-identity.js';
import {
  NO_VOLUMES,
  offeredVolume,
  type OfferedVolume,
  type OfferedVolumes,
} from '../../../settings/volumes.js';
import type { ContainerSpec, RuntimeLog } from '../../runtime.js';
import type { ContainerTiming } from '../container/docker.container.js';
import { engineMessage, engineStatus, withLimit, type EngineFeatures } from '../engine/docker-engine.js';
import { withProbeImage, withUnstarted } from '../engine-probe.js';
import { MountFault, openSubFolder, type FolderOwner } from './sub-folder.js';

/** Where a probe has what it mounts. */
const PROBE_PATH = '/longshore-probe';

/** What the engine says of a source that it cannot mount. */
const NOT_MOUNTED = /does not exist|no such|local volume|while mounting volume/i;

export interface VolumeOptions extends WorkerIdentity {
  /** SERVICE_WORKER_VOLUMES; absent: none. */
  readonly volumes?: OfferedVolumes;
  readonly log: RuntimeLog;
}

/** The volumes that one container mounts. */
export interface PreparedMounts {
  readonly settings: Dockerode.MountSettings[];
  /** Logs and tells why, when the engine refused the container because of a volume; undefined: it is another reason. */
  logRefusal(error: unknown): MountFault | undefined;
  /** Closes the folders that the container has mounted, once it is removed: the engine mounts them again to read its outputs. */
  close(): Promise<void>;
}

/** A volume of which a container mounts all or one folder. */
interface MountedVolume {
  readonly name: string;
  /** What the engine names when it cannot mount it. */
  readonly source: string;
  /** Null: all of the volume. */
  readonly folder: FileHandle | null;
  readonly setting: Dockerode.MountSettings;
}

/** The volumes that the worker offers, on its engine. */
export class VolumeMounts {
  private readonly volumes: OfferedVolumes;
  /** Whether the engine mounts what this process has opened. */
  private isShared = false;

  constructor(
    private readonly options: VolumeOptions,
    private readonly timing: ContainerTiming,
  ) {
    this.volumes = options.volumes ?? NO_VOLUMES;
  }

  /** Looks for the volumes, and whether parts of them can be mounted. @throws Error fit for the operator when one is missing */
  async check(engine: Dockerode): Promise<void> {
    if (this.volumes.size === 0) return;
    await withProbeImage(engine, this.timing, async (image) => {
      for (const [name, { kind, source }] of this.volumes) {
        const isThere =
          kind === 'folder'
            ? await this.isFolder(engine, image, source)
            : (await this.find(engine, source)) !== null;
        if (isThere) continue;
        const what = kind === 'folder' ? 'folder' : 'volume';
        throw new Error(
          `SERVICE_WORKER_VOLUMES: the container engine has no ${what} '${source}' for the volume '${name}'`,
        );
      }
      this.isShared = await this.mountsOpenFolders(engine, image);
    });
    if (!this.isShared)
      this.options.log.warn(
        {},
        'the container engine does not see the open files of this worker: runs with a sub_path fail',
      );
  }

  /**
   * @throws RunFault when a `sub_path` cannot be used
   * @throws MountFault when this machine cannot mount a volume
   */
  async prepare(
    engine: Dockerode,
    { runId, mounts, user, workdir }: Pick<ContainerSpec, 'runId' | 'mounts' | 'user' | 'workdir'>,
    features: EngineFeatures,
  ): Promise<PreparedMounts> {
    const owner = ownerIn(features, user);
    const mounted: MountedVolume[] = [];
    const close = async (): Promise<void> => {
      for (const { folder } of mounted) await folder?.close();
    };
    try {
      for (const mount of mounts) {
        if (mount.volume === undefined) continue;
        mounted.push(await this.mount(engine, mount.volume, mount, { owner, features }));
        if (workdir !== null && workdir.startsWith(`${mount.path}/`))
          await this.makeFolder(engine, mount.volume, mount, {
            owner,
            inner: workdir.slice(mount.path.length + 1),
          });
      }
    } catch (error) {
      await close();
      throw error;
    }
    const settings = mounted.map(({ setting }) => setting);
    return { settings, logRefusal: (error) => this.logRefusal(error, mounted, runId), close };
  }

  /** Opens the folder that is asked for, if it is not the whole volume. @param owner of folders that are created */
  private async mount(
    engine: Dockerode,
    name: string,
    { path: Target, read_only: isReadOnly = false, sub_path: path }: ContainerSpec['mounts'][number],
    { owner, features }: { readonly owner: FolderOwner | null; readonly features: EngineFeatures },
  ): Promise<MountedVolume> {
    const volume = offeredVolume(this.volumes, name, isReadOnly, MountFault);
    const root = await this.findRoot(engine, name, volume);
    if (path === undefined) {
      const { source } = volume;
      return { name, source, folder: null, setting: { Target, ...wholeVolume(volume, isReadOnly) } };
    }
    if (root === null || !this.isShared)
      throw new MountFault(`This worker cannot mount a part (sub_path) of the volume '${name}'`);
    if (isReadOnly && !features.keepsReadOnly)
      throw new MountFault(
        `This worker cannot mount a part (sub_path) of the volume '${name}' read-only with its OCI runtime`,
      );
    const folder = await openSubFolder({ volume: name, root, path, mayCreate: !isReadOnly, owner });
    const source = sharedPath(folder);
    return { name, source, folder, setting: { Target, ...openFolder(source, isReadOnly) } };
  }

  /** Makes a folder within a mount that may be missing: the engine would make it one of root. */
  private async makeFolder(
    engine: Dockerode,
    name: string,
    { read_only: isReadOnly = false, sub_path: path }: ContainerSpec['mounts'][number],
    { owner, inner }: { readonly owner: FolderOwner | null; readonly inner: string },
  ): Promise<void> {
    const root = await this.findRoot(engine, name, offeredVolume(this.volumes, name, isReadOnly, MountFault));
    if (isReadOnly || root === null || !this.isShared) return;
    const whole = path === undefined ? inner : `${path}/${inner}`;
    const folder = await openSubFolder({ volume: name, root, path: whole, mayCreate: true, owner });
    await folder.close();
  }

  private logRefusal(error: unknown, mounted: readonly MountedVolume[], run: string): MountFault | undefined {
    const words = engineMessage(error);
    const longestFirst = mounted.toSorted((a, b) => b.source.length - a.source.length);
    const refused = longestFirst.find(({ source }) => NOT_MOUNTED.test(words) && words.includes(source));
    if (refused === undefined) return undefined;
    const volume = refused.name;
    this.options.log.warn({ run, volume, error: words }, 'volume not mounted');
    return new MountFault(`The volume '${volume}' is missing on this worker, or cannot be mounted`, {
      cause: error,
    });
  }

  /** The folder of a volume on this machine; null: it has none. @throws MountFault when it is missing */
  private async findRoot(
    engine: Dockerode,
    name: string,
    { kind, source }: OfferedVolume,
  ): Promise<string | null> {
    if (kind === 'folder') return source;
    // The engine would create it, empty.
    const found = await this.find(engine, source);
    if (found === null) throw new MountFault(`The volume '${name}' is missing on this worker`);
    const { Driver, Options, Mountpoint } = found;
    // Others are mounted only while containers use them.
    return Driver === 'local' && Object.keys(Object(Options)).length === 0 ? Mountpoint : null;
  }

  private async find(engine: Dockerode, name: string): Promise<Dockerode.VolumeInspectInfo | null> {
    try {
      return await withLimit(this.timing.callMs, 'volume inspect', (abortSignal) =>
        engine.getVolume(name).inspect({ abortSignal }),
      );
    } catch (error) {
      if (engineStatus(error) === 404) return null;
      throw error;
    }
  }

  private async isFolder(engine: Dockerode, image: string, source: string): Promise<boolean> {
    try {
      const mount = { ...bindOf(source, true), Target: PROBE_PATH };
      await withUnstarted(
        engine,
        { image, owner: this.options, mounts: [mount] },
        this.timing,
        async () => undefined,
      );
      return true;
    } catch (error) {
      if (engineStatus(error) === 400) return false;
      throw error;
    }
  }

  /** Whether the engine finds in a folder that this process has opened what is in it. */
  private async mountsOpenFolders(engine: Dockerode, image: string): Promise<boolean> {
    if (process.platform !== 'linux') return false;
    const folder = await mkdtemp(join(tmpdir(), 'longshore-probe-'));
    const handle = await open(folder, 'r');
    try {
      const mark = randomUUID();
      await writeFile(join(folder, mark), '');
      const mount = { ...openFolder(sharedPath(handle), true), Target: PROBE_PATH };
      await withUnstarted(engine, { image, owner: this.options, mounts: [mount] }, this.timing, (container) =>
        withLimit(this.timing.callMs, 'archive', (abortSignal) =>
          container.infoArchive({ path: `${PROBE_PATH}/${mark}`, abortSignal }),
        ),
      );
      return true;
    } catch (error) {
      if (engineStatus(error) === null) throw error;
      this.options.log.info(
        { error: engineMessage(error) },
        'the container engine does not mount open folders',
      );
      return false;
    } finally {
      await handle.close();
      await rm(folder, { recursive: true, force: true });
    }
  }
}

type Source = Omit<Dockerode.MountSettings, 'Target'>;

function bindOf(source: string, isReadOnly: boolean): Source {
  return { Type: 'bind', Source: source, ReadOnly: isReadOnly };
}

/** Nothing of the image is copied into it. */
function wholeVolume({ kind, source }: OfferedVolume, isReadOnly: boolean): Source {
  if (kind === 'folder') return bindOf(source, isReadOnly);
  const VolumeOptions = { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } };
  return { Type: 'volume', Source: source, ReadOnly: isReadOnly, VolumeOptions };
}

/**
 * A volume without a name, which the engine mounts from a folder that this process has opened and removes with its container.
 * A bind mount would not do: it is made in the container's namespace, where older kernels refuse folders of another one.
 * Engines refuse `ReadOnly` for volumes without a name.
 */
function openFolder(device: string, isReadOnly: boolean): Source {
  const Options = { type: 'none', o: isReadOnly ? 'rbind,ro' : 'rbind', device };
  const DriverConfig = { Name: 'local', Options };
  return { Type: 'volume', Source: '', VolumeOptions: { NoCopy: true, Labels: {}, DriverConfig } };
}

/** The open folder for other processes. */
function sharedPath({ fd }: FileHandle): string {
  return `/proc/${process.pid}/fd/${fd}`;
}

/** The owner of folders that are created for a run; null: on this machine, the user of the container has no known number. */
function ownerIn({ isRemapped }: EngineFeatures, user: string | null): FolderOwner | null {
  if (user === null || isRemapped) return null;
  const [uid, gid = 0] = user.split(':').map(Number);
  return uid === undefined ? null : { uid, gid };
}
