import { join } from 'node:path';
import { jsonText } from '@longshore/common/json/json-text';
import type { JobSpec } from '../../launcher/engine.js';
import { parseImageReference } from '@longshore/worker/runtime/docker/images/image-reference';
import { templateText } from '@longshore/worker/runtime/outputs';
import { RunFault, workerEnvironment } from '@longshore/worker/runtime/runtime';
import { hasImageFolders, type ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { folderInContainer } from './container-tools.js';
import { findImageFolder, type ImageFolder } from './image-folder.js';
import { MOUNTS_FOLDER, mountPoints, type AttemptMount } from '../mounts/attempt-mounts.js';
import { CONTAINER_FOLDER, type AttemptFiles } from '../attempt-folder.js';
import { ociConfig } from './oci-config.js';

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
}

/**
 * The files by which a job script executes the attempt.
 * @throws RunFault when there is no such image, or the tool cannot pass on what the run says
 * @throws Error when the folder of images cannot be read
 */
export async function attemptFiles(spec: JobSpec, place: AttemptPlace): Promise<AttemptFiles> {
  const { tool, imagesDir, workerId, folder, mounts } = place;
  const env = environment(spec, tool, folder);
  checkLineBreaks(env, tool);
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
  };
  if (!hasImageFolders(tool) || imagesDir === null) {
    if (typeof tool === 'string') parseImageReference(spec.image);
    return { ...files, env, forTool: {} };
  }
  const image = await findImageFolder(imagesDir, spec.image);
  const command = commandLine(spec, image);
  const whole = { ...imageEnvironment(image), ...env };
  if (tool === 'runc') {
    const binds = mountPoints(mounts, spec.files).map(({ path, mode }, index) => ({
      source: join(folder, MOUNTS_FOLDER, String(index)),
      path,
      mode,
    }));
    const io = { source: join(folder, CONTAINER_FOLDER), path: '/mnt', mode: 'rw' } as const;
    const config = jsonText(ociConfig({ image, command, env: whole, binds: [io, ...binds] }));
    const forTool = { 'oci-config': config, 'image-dir': image.path };
    return { ...files, command: null, args: null, env: {}, forTool };
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
  };
}

/** The values of secrets in files, by path. */
function secretFiles({ files }: JobSpec): Record<string, string> {
  return Object.fromEntries(
    files.filter(({ isSecret }) => isSecret).map(({ path, content }) => [path, content]),
  );
}

/** enroot reads variables line by line. */
function checkLineBreaks(env: Readonly<Record<string, string>>, tool: ContainerTool): void {
  if (tool !== 'enroot') return;
  const refused = Object.keys(env).find((name) => env[name]?.includes('\n') === true);
  if (refused !== undefined)
    throw new RunFault(`The variable ${refused} of the run has several lines, which ${tool} cannot pass on`);
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
