import { chmod, chown, link, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode } from '@longshore/common/errors';
import { FILES_ROOT } from '@longshore/common/variable-names';
import { DiskFull } from '@longshore/worker/artifacts/file-cache';
import { fillFilesRoot } from '@longshore/worker/runtime/process/attempt-files';
import {
  type ContainerFile,
  EngineFault,
  RunFault,
  workerEnvironment,
} from '@longshore/worker/runtime/runtime';
import type { ArtifactPoints } from './mounts/artifact-points.js';
import { MOUNTS_FOLDER, mountPoints, type AttemptMount } from './mounts/attempt-mounts.js';
import { jsonText } from '@longshore/common/json/json-text';
import type { JobMemo, JobSpec } from '../launcher/engine.js';
import { parseImageReference } from '@longshore/worker/runtime/docker/images/image-reference';
import { templateText } from '@longshore/worker/runtime/outputs';
import { hasImageFolders, type ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { folderInContainer } from './containers/container-tools.js';
import { findImageFolder, type ImageFolder } from './containers/image-folder.js';
import { ociConfig } from './containers/oci-config.js';

/** Contents of the files of a new folder. */
export interface AttemptFiles {
  readonly workerId: string;
  readonly image: string;
  /** JSON. */
  readonly inputs: string;
  /** Initial content of the output file. */
  readonly outputs: string;
  /** Values of secrets among them. */
  readonly env: Readonly<Record<string, string>>;
  /** Values of secrets by variable and by path of a file, which stay in the folder. */
  readonly secrets: Readonly<Record<string, string | Buffer>>;
  readonly command: readonly string[] | null;
  readonly args: readonly string[] | null;
  readonly mounts: readonly AttemptMount[];
  /** Files of the run. */
  readonly runFiles: readonly ContainerFile[];
  readonly memo: JobMemo;
  /** Null: the run has no `artifacts`. */
  readonly artifacts: ArtifactPoints | null;
  /** Who gets the folders of these; null: the account of the jobs. */
  readonly owner: ImageFolder['user'];
  /** Further files for the container tool, by name. */
  readonly forTool: Readonly<Record<string, string>>;
}

/** Folder that the container sees, with the input and the output file. */
export const CONTAINER_FOLDER = 'io';
export const LOG_FILE = 'log';
/** Within it: the home of the program, where images are read-only. */
const HOME_FOLDER = 'home';
/** Contents of the files of the run by their number, until the job has them in memory. */
const FILES_FOLDER = 'files';
export const SUBMISSION = 'submission';
export const SECRETS = 'secrets';
export const MEMO = 'memo';
/** What was fetched for the run, and what it leaves, by their paths in the container. */
export const ARTIFACTS_FOLDER = 'artifacts';

/** Makes the folder of an attempt. What it has is for its owner alone. */
export async function writeAttempt(folder: string, files: AttemptFiles): Promise<void> {
  const { mounts, runFiles, artifacts, memo } = files;
  const write = (name: string, content: string | Buffer): Promise<void> =>
    writeFile(join(folder, name), content, { mode: 0o600 });
  await mkdir(join(folder, CONTAINER_FOLDER, HOME_FOLDER), { recursive: true, mode: 0o700 });
  // Before all that is secret: it may take long.
  if (artifacts !== null) await fill(folder, artifacts, files.owner);
  await write(SUBMISSION, JSON.stringify({ worker_id: files.workerId, created_at: Date.now() }));
  await write(LOG_FILE, '');
  await write('image', files.image);
  await write('env', nulEnded(Object.entries(files.env).map(([name, value]) => `${name}=${value}`)));
  const secrets = Object.entries(files.secrets).map(([name, value]) => [
    name,
    Buffer.from(value).toString('base64'),
  ]);
  await write(SECRETS, JSON.stringify(Object.fromEntries(secrets)));
  await write(MEMO, JSON.stringify(memo));
  if (files.command !== null) await write('command', nulEnded(files.command));
  if (files.args !== null) await write('args', nulEnded(files.args));
  for (const [name, text] of Object.entries(files.forTool)) await write(name, text);
  const points = mountPoints(mounts, runFiles, artifacts);
  if (points.length > 0) {
    const parts = mounts.flatMap(({ volume, source, subPath, mode }) => [volume, source, subPath, mode]);
    await write('mount-sources', nulEnded(parts));
    const modes = runFiles.map(({ mode }) => mode.toString(8));
    await write('file-modes', nulEnded([...modes, ...(artifacts?.files ?? [])]));
    await write('mount-points', nulEnded(points.map(({ mode, path }) => `${mode}:${path}`)));
    for (const name of [MOUNTS_FOLDER, FILES_FOLDER]) await mkdir(join(folder, name), { mode: 0o700 });
    for (const [index, { content }] of runFiles.entries())
      await write(join(FILES_FOLDER, String(mounts.length + index)), content);
  }
  await write(join(CONTAINER_FOLDER, 'input.json'), files.inputs);
  await write(join(CONTAINER_FOLDER, 'output.json'), files.outputs);
  await openToContainer(folder);
}

/** Puts the files of the run into the folder of the attempt. @throws DiskFull */
async function fill(
  folder: string,
  { places, inner }: ArtifactPoints,
  owner: AttemptFiles['owner'],
): Promise<void> {
  const root = join(folder, ARTIFACTS_FOLDER);
  const makeFolder = async (path: string): Promise<void> => {
    await mkdir(path, { recursive: true });
    // As in `openToContainer`.
    await chmod(path, 0o777);
    if (owner !== null) await chown(path, owner.uid, owner.gid);
  };
  try {
    await mkdir(root, { mode: 0o755 });
    await fillFilesRoot(root, places, makeFolder);
    for (const path of inner) await holdPlace(folder, join(root, path));
  } catch (error) {
    const isFull = error instanceof EngineFault && ['ENOSPC', 'EDQUOT'].includes(errorCode(error.cause));
    throw isFull ? new DiskFull(`The shared folder of Slurm's jobs is full: ${error.message}`) : error;
  }
}

/** A file is mounted there. With a second name, what is in its place does not count as a file that the run has left. */
async function holdPlace(folder: string, path: string): Promise<void> {
  const first = join(folder, 'place');
  await writeFile(first, '');
  await mkdir(dirname(path), { recursive: true });
  // Some file systems have no links of this kind.
  await link(first, path).catch(() => writeFile(path, ''));
}

/** Programs may run under another account; the folder above keeps other users out. */
async function openToContainer(folder: string): Promise<void> {
  await chmod(join(folder, CONTAINER_FOLDER), 0o777);
  await chmod(join(folder, CONTAINER_FOLDER, HOME_FOLDER), 0o1777);
  await chmod(join(folder, CONTAINER_FOLDER, 'input.json'), 0o644);
  await chmod(join(folder, CONTAINER_FOLDER, 'output.json'), 0o666);
}

function nulEnded(texts: readonly string[]): string {
  return texts.map((text) => `${text}\0`).join('');
}

const DEFAULT_PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Where an attempt is to be executed. */
export interface AttemptPlace {
  readonly tool: ContainerTool;
  /** Null: the tool gets images by itself. */
  readonly imagesDir: string | null;
  readonly workerId: string;
  /** Folder of the attempt. */
  readonly folder: string;
  readonly mounts: readonly AttemptMount[];
  readonly artifacts: ArtifactPoints | null;
}

/**
 * The files by which a job script executes the attempt.
 * @throws RunFault when there is no such image, or the tool cannot pass on what the run says
 * @throws Error when the folder of images cannot be read
 */
export async function attemptFiles(spec: JobSpec, place: AttemptPlace): Promise<AttemptFiles> {
  const { tool, imagesDir, workerId, folder, mounts, artifacts } = place;
  const env = environment(spec, tool, folder);
  checkVariables(env, tool);
  const files = {
    workerId,
    image: spec.image,
    inputs: jsonText(spec.inputs),
    outputs: templateText(spec.outputTemplate),
    secrets: { ...spec.secrets, ...secretFiles(spec) },
    command: isSet(spec.command) ? spec.command : null,
    args: isSet(spec.args) ? spec.args : null,
    mounts,
    runFiles: spec.files,
    memo: spec.memo,
    artifacts,
    owner: null,
  };
  if (!hasImageFolders(tool) || imagesDir === null) {
    if (typeof tool === 'string') parseImageReference(spec.image);
    return { ...files, env, forTool: {} };
  }
  const image = await findImageFolder(imagesDir, spec.image);
  const command = commandLine(spec, image);
  // Images are read-only.
  const home = `${folderInContainer(tool, '')}/${HOME_FOLDER}`;
  const whole = { HOME: home, ...imageEnvironment(image), ...env };
  if (tool === 'runc') {
    const binds = mountPoints(mounts, spec.files, artifacts).map(({ path, mode }, index) => ({
      source: join(folder, MOUNTS_FOLDER, String(index)),
      path,
      mode,
    }));
    const io = { source: join(folder, CONTAINER_FOLDER), path: '/mnt', mode: 'rw' } as const;
    const config = jsonText(ociConfig({ image, command, env: whole, binds: [io, ...binds] }));
    const forTool = { 'oci-config': config, 'image-dir': image.path, 'work-dir': image.workDir };
    const owner = process.getuid?.() === 0 ? image.user : null;
    return { ...files, command: null, args: null, env: {}, owner, forTool };
  }
  const forTool = { 'image-dir': image.path, 'work-dir': image.workDir };
  return { ...files, command, args: null, env: whole, forTool };
}

function environment(spec: JobSpec, tool: ContainerTool, folder: string): Record<string, string> {
  const inside = folderInContainer(tool, join(folder, CONTAINER_FOLDER));
  return {
    ...spec.env,
    ...spec.secrets,
    ...workerEnvironment(spec, spec.constraints, inside),
    ...(spec.artifacts !== null && { [FILES_ROOT]: '' }),
  };
}

/** The values of secrets in files, by path. */
function secretFiles({ files }: JobSpec): Record<string, string | Buffer> {
  return Object.fromEntries(
    files.filter(({ isSecret }) => isSecret).map(({ path, content }) => [path, content]),
  );
}

/** enroot reads variables line by line; apptainer gets them from a shell, which has names of its own kind. */
function checkVariables(env: Readonly<Record<string, string>>, tool: ContainerTool): void {
  for (const [name, value] of Object.entries(env)) {
    if (tool === 'enroot' && value.includes('\n'))
      throw new RunFault(`The variable ${name} of the run has several lines, which ${tool} cannot pass on`);
    if (tool === 'apptainer' && !/^\w+$/.test(name))
      throw new RunFault(`The name of the variable '${name}' of the run is none that ${tool} can pass on`);
  }
}

function imageEnvironment({ env }: ImageFolder): Record<string, string> {
  return Object.fromEntries(
    [DEFAULT_PATH, ...env].map((pair) => {
      const at = pair.indexOf('=');
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** The run's command and arguments in place of the image's: `command` drops both. */
function commandLine({ image, command, args }: JobSpec, folder: ImageFolder): readonly string[] {
  const entrypoint = isSet(command) ? command : folder.entrypoint;
  const given = isSet(args) ? args : isSet(command) ? [] : folder.cmd;
  const words = [...entrypoint, ...given];
  if (words.length > 0) return words;
  throw new RunFault(
    `Image '${image}' cannot be run: nothing says which program; put its configuration beside its folder`,
    { reported: 'image' },
  );
}

function isSet(words: readonly string[] | null): words is readonly string[] {
  return words !== null && words.length > 0;
}
