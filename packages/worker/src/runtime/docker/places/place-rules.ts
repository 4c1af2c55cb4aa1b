import { posix } from 'node:path';
import { CONTAINER_FOLDER, isWithin, placeProblem, SYSTEM_FOLDERS } from '../../container-places.js';
import { RunFault, type ContainerSpec } from '../../runtime.js';
import { follow, type Followed, type Lookup } from './follow.js';

/** What an image asks an engine to put into its containers. */
export interface ImageWishes {
  /** Paths of VOLUME, as the image has them. */
  readonly volumes: readonly string[];
  /** Path of WORKDIR; empty: none. */
  readonly workdir: string;
}

/** Where a container begins. */
export interface WorkingDirectory {
  /** Without links of the image. */
  readonly path: string;
  /** Whether it is made for the run. What a volume has is not known here. */
  readonly isNew: boolean;
}

type Wanted = Pick<ContainerSpec, 'mounts' | 'files' | 'workdir'> & Partial<Pick<ContainerSpec, 'artifacts'>>;

/** A place where something is put. */
interface Place {
  /** For messages. */
  readonly name: string;
  readonly path: string;
  /** What may be there. */
  readonly kind: 'folder' | 'file';
}

/**
 * Where engines mount files of their own. Links of an image lead them elsewhere, which is harmless within the container, but not
 * in what other containers change meanwhile.
 */
const ENGINE_FILES = [
  '/etc/hosts',
  '/etc/hostname',
  '/etc/resolv.conf',
  '/etc/passwd',
  '/etc/group',
  '/sbin/docker-init',
  '/run/.containerenv',
  '/run/podman-init',
  '/run/secrets',
  // What hooks add for GPUs.
  '/usr/bin/nvidia-smi',
  '/usr/lib/x86_64-linux-gnu/libcuda.so.1',
  '/usr/lib64/libcuda.so.1',
];

/**
 * Decides whether everything that is to be put into a container may be put there: mounts, empty folders, files, the working
 * directory, the volumes of the image and the worker's own folder. An engine follows links of the image in their paths, and those
 * could lead to the system, to the worker's own folder, or into a volume, where another container exchanges folders and links
 * while the engine mounts.
 * @param lookup into the image, without anything mounted
 * @throws RunFault that names the path
 */
export async function checkPlaces(
  wanted: Wanted,
  image: ImageWishes,
  lookup: Lookup,
): Promise<WorkingDirectory> {
  const { mounts, workdir } = wanted;
  const places = placesOf(wanted, image);
  for (const place of places) checkText(place, mounts);
  for (const folder of wanted.artifacts?.folders ?? []) checkGiven(folder, mounts);
  const directory = workdirPlace(workdir);
  const [begin, [found]] = await Promise.all([
    workdir ?? imageWorkdir(image, lookup),
    Promise.all(directory.map((one) => checkFound(one, lookup))),
    ...[...OWN_PLACES, ...places].map((one) => checkFound(one, lookup)),
    ...ENGINE_FILES.flatMap((file) => volumesOf(mounts).map((path) => checkApart(path, file, lookup))),
  ]);
  const mount = mounts.find((one) => isWithin(begin, one.path));
  const isMissing = mount === undefined ? found === 'missing' : begin !== mount.path && !hasVolume([mount]);
  return { path: begin, isNew: workdir !== null && isMissing };
}

/**
 * Decides about a working directory within a volume, where the image says nothing.
 * @param path without links of the image
 * @param lookup into the container, with its mounts
 * @throws RunFault when it passes a link of the volume
 */
export async function checkMountedWorkdir(
  path: string,
  mounts: Wanted['mounts'],
  lookup: Lookup,
): Promise<void> {
  if (volumesOf(mounts).some((volume) => path !== volume && isWithin(path, volume)))
    await checkFound({ name: 'working directory', path, kind: 'folder' }, lookup, 'volume');
}

/** The volumes of an image that are mounted: those that the run does not replace. */
export function mountedVolumes(mounts: Wanted['mounts'], { volumes }: ImageWishes): string[] {
  const paths = new Set(volumes.map(clean));
  for (const { path } of mounts) paths.delete(path);
  return [...paths];
}

/** The worker's own folder, and those over which the engine mounts the system. */
const OWN_PLACES: readonly Place[] = [CONTAINER_FOLDER, ...SYSTEM_FOLDERS].map((path) => ({
  name: 'folder',
  path,
  kind: 'folder',
}));

function placesOf(wanted: Wanted, image: ImageWishes): Place[] {
  const { fetched = [], folders = [] } = wanted.artifacts ?? {};
  return [
    ...fetched.map(({ path, kind }): Place => ({ name: kind, path, kind })),
    ...folders
      .filter((path) => path !== '/')
      .map((path): Place => ({ name: 'folder', path, kind: 'folder' })),
    ...wanted.mounts.map(({ path }): Place => ({ name: 'mount', path, kind: 'folder' })),
    ...wanted.files.map(({ path }): Place => ({ name: 'file', path, kind: 'file' })),
    ...mountedVolumes(wanted.mounts, image).map((path): Place => ({
      name: 'VOLUME of the image',
      path,
      kind: 'folder',
    })),
  ];
}

/** None for the root, which every image has. */
function workdirPlace(path: string | null): Place[] {
  if (path === null || path === '/') return [];
  const place: Place = { name: 'working directory', path, kind: 'folder' };
  checkText(place, []);
  return [place];
}

function checkText(place: Place, mounts: Wanted['mounts']): void {
  const problem = placeProblem(place.path);
  if (problem !== null) throw refused(place, `it ${problem}`);
  const outer = volumesOf(mounts).find((path) => path !== place.path && isWithin(place.path, path));
  if (outer !== undefined) throw refused(place, `it is in the mount '${outer}'`);
}

/** Volumes are not read after the end: see `outputs-access.ts`. */
function checkGiven(folder: string, mounts: Wanted['mounts']): void {
  const place = { name: 'folder', path: folder };
  if (volumesOf(mounts).includes(folder))
    throw refused(place, 'files that the run gives are not taken from a volume');
  if (folder === '/' && hasVolume(mounts))
    throw refused(place, 'files that a run with volumes gives must be in a folder of their own');
}

async function checkFound(place: Place, lookup: Lookup, where = 'image'): Promise<Followed['kind']> {
  const { kind, link, place: end } = await follow(place.path, lookup);
  if (link !== null) throw refused(place, `'${link}' is a link in the ${where}`);
  if (kind !== 'missing' && kind !== place.kind)
    throw refused(place, `the ${where} has something else at '${end}'`);
  return kind;
}

/** Links are usual in it, and harmless, since only the program goes there. */
async function imageWorkdir({ workdir }: ImageWishes, lookup: Lookup): Promise<string> {
  if (workdir === '') return '/';
  const { place } = await follow(clean(workdir), lookup);
  const system = SYSTEM_FOLDERS.find((folder) => isWithin(place, folder));
  if (system === undefined) return place;
  throw refused({ name: 'WORKDIR of the image', path: workdir }, `it is in ${system}`);
}

async function checkApart(volume: string, file: string, lookup: Lookup): Promise<void> {
  const { place } = await follow(file, lookup);
  if (isWithin(place, volume))
    throw refused({ name: 'mount', path: volume }, `the engine has '${file}' in it`);
}

/** Whether a container mounts what other containers may change meanwhile. */
export function hasVolume(mounts: Wanted['mounts']): boolean {
  return volumesOf(mounts).length > 0;
}

/** Where a container has its empty folders. */
export function scratchPaths(mounts: Wanted['mounts']): string[] {
  return mounts.filter(({ volume }) => volume === undefined).map(({ path }) => path);
}

/** The folders of what a run gives that are volumes of their own, as those of the outputs: see `outputs-access.ts`. */
export function keptFolders(mounts: Wanted['mounts'], folders: readonly string[]): string[] {
  if (!hasVolume(mounts)) return [];
  const own = folders.filter(
    (path) => path !== '/' && !scratchPaths(mounts).some((one) => isWithin(path, one)),
  );
  return own.filter((path) => !own.some((other) => other !== path && isWithin(path, other)));
}

/** Folders that are mounted and belong to one container alone. @param folders of what the run gives */
export function mountedFolders(mounts: Wanted['mounts'], folders: readonly string[]): string[] {
  return [...scratchPaths(mounts), ...keptFolders(mounts, folders)];
}

function volumesOf(mounts: Wanted['mounts']): string[] {
  return mounts.filter(({ volume }) => volume !== undefined).map(({ path }) => path);
}

/** As engines read the paths of an image. */
function clean(path: string): string {
  const text = posix.normalize(path);
  return text === '/' ? text : text.replace(/\/$/, '');
}

function refused({ name, path }: Pick<Place, 'name' | 'path'>, why: string): RunFault {
  return new RunFault(`The ${name} '${path}' cannot be used: ${why}`);
}
