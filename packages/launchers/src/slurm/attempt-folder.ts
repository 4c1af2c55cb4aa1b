import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MOUNTS_FOLDER, type AttemptMount } from './mounts/attempt-mounts.js';

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
  /** Values of secrets by variable, which stay in the folder. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly command: readonly string[] | null;
  readonly args: readonly string[] | null;
  readonly mounts: readonly AttemptMount[];
  /** Further files for the container tool, by name. */
  readonly forTool: Readonly<Record<string, string>>;
}

/** Folder that the container sees, with the input and the output file. */
export const CONTAINER_FOLDER = 'io';
export const LOG_FILE = 'log';
export const SUBMISSION = 'submission';
export const SECRETS = 'secrets';

/** Makes the folder of an attempt. What it has is for its owner alone. */
export async function writeAttempt(folder: string, files: AttemptFiles): Promise<void> {
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
  if (files.mounts.length > 0) {
    const parts = files.mounts.flatMap(({ volume, source, subPath, mode }) => [
      volume,
      source,
      subPath,
      mode,
    ]);
    await write('mount-sources', nulEnded(parts));
    await write('mount-points', nulEnded(files.mounts.map(({ mode, path }) => `${mode}:${path}`)));
    for (const name of ['image', ...files.mounts.keys()])
      await mkdir(join(folder, MOUNTS_FOLDER, String(name)), { recursive: true, mode: 0o700 });
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
