import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ContainerFile } from '@longshore/worker/runtime/runtime';
import { MOUNTS_FOLDER, mountPoints, type AttemptMount } from './mounts/attempt-mounts.js';

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
  readonly secrets: Readonly<Record<string, string>>;
  readonly command: readonly string[] | null;
  readonly args: readonly string[] | null;
  readonly mounts: readonly AttemptMount[];
  /** Files of the run. */
  readonly runFiles: readonly ContainerFile[];
  /** Further files for the container tool, by name. */
  readonly forTool: Readonly<Record<string, string>>;
}

/** Folder that the container sees, with the input and the output file. */
export const CONTAINER_FOLDER = 'io';
export const LOG_FILE = 'log';
/** Contents of the files of the run by their number, until the job has them in memory. */
const FILES_FOLDER = 'files';
export const SUBMISSION = 'submission';
export const SECRETS = 'secrets';

/** Makes the folder of an attempt. What it has is for its owner alone. */
export async function writeAttempt(folder: string, files: AttemptFiles): Promise<void> {
  const { mounts, runFiles } = files;
  const write = (name: string, text: string): Promise<void> =>
    writeFile(join(folder, name), text, { mode: 0o600 });
  await mkdir(join(folder, CONTAINER_FOLDER), { recursive: true, mode: 0o700 });
  await write(SUBMISSION, JSON.stringify({ worker_id: files.workerId, created_at: Date.now() }));
  await write(LOG_FILE, '');
  await write('image', files.image);
  await write('env', nulEnded(Object.entries(files.env).map(([name, value]) => `${name}=${value}`)));
  await write(SECRETS, JSON.stringify(files.secrets));
  if (files.command !== null) await write('command', nulEnded(files.command));
  if (files.args !== null) await write('args', nulEnded(files.args));
  for (const [name, text] of Object.entries(files.forTool)) await write(name, text);
  if (mounts.length + runFiles.length > 0) {
    const parts = mounts.flatMap(({ volume, source, subPath, mode }) => [volume, source, subPath, mode]);
    await write('mount-sources', nulEnded(parts));
    await write('file-modes', nulEnded(runFiles.map(({ mode }) => mode.toString(8))));
    const points = mountPoints(mounts, runFiles).map(({ mode, path }) => `${mode}:${path}`);
    await write('mount-points', nulEnded(points));
    for (const name of [MOUNTS_FOLDER, FILES_FOLDER]) await mkdir(join(folder, name), { mode: 0o700 });
    for (const [index, { content }] of runFiles.entries())
      await write(join(FILES_FOLDER, String(mounts.length + index)), content);
  }
  await write(join(CONTAINER_FOLDER, 'input.json'), files.inputs);
  await write(join(CONTAINER_FOLDER, 'output.json'), files.outputs);
  await openToContainer(folder);
}

/** Programs may run under another account; the folder above keeps other users out. */
async function openToContainer(folder: string): Promise<void> {
  await chmod(join(folder, CONTAINER_FOLDER), 0o777);
  await chmod(join(folder, CONTAINER_FOLDER, 'input.json'), 0o644);
  await chmod(join(folder, CONTAINER_FOLDER, 'output.json'), 0o666);
}

function nulEnded(texts: readonly string[]): string {
  return texts.map((text) => `${text}\0`).join('');
}
