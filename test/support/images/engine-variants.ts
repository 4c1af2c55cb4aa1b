import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineOptions } from './docker-engine.js';

/** What LONGSHORE_TEST_ENGINE makes of engines for which a test asks for nothing of that kind. */
const VARIANTS: Readonly<Record<string, EngineOptions>> = {
  runc: {},
  userns: { remappedTo: 300_000 },
  crun: { ociRuntime: 'crun' },
};

/**
 * What an engine is started with, in the variant that LONGSHORE_TEST_ENGINE names.
 * @throws Error when it names none
 */
export function inVariant(asked: EngineOptions): EngineOptions {
  const name = process.env['LONGSHORE_TEST_ENGINE'] || 'runc';
  const options = VARIANTS[name];
  if (options === undefined)
    throw new Error(
      `LONGSHORE_TEST_ENGINE is '${name}', and must be one of ${Object.keys(VARIANTS).join(', ')}`,
    );
  // An engine has a namespace of its own for one of the two.
  const isOwn = asked.hostAddress !== undefined || asked.remappedTo !== undefined;
  return isOwn ? asked : { ...options, ...asked };
}

/** Why engines of the variant do not find the open folders of a worker, which makes parts of volumes; false: they do. */
export const NO_OPEN_FOLDERS =
  process.env['LONGSHORE_TEST_ENGINE'] === 'userns' &&
  'the engine has its own mounts in this variant, and finds no folder that a worker has opened';

/** Whether engines of the variant mount parts of volumes read-only. */
export const HAS_READ_ONLY_PARTS = process.env['LONGSHORE_TEST_ENGINE'] !== 'crun';

/** The highest user and group that engines of the variant have. */
export const HIGHEST_USER = process.env['LONGSHORE_TEST_ENGINE'] === 'userns' ? 65_535 : 2_147_483_647;

const HYBRID = '/sys/fs/cgroup/unified';

/**
 * Flags of dockerd for another runtime than runc. It is started without the second version of control groups beside the first:
 * crun refuses both at once.
 * @param folder of the engine, for a program that does that
 */
export function runtimeFlags(ociRuntime: string | undefined, folder: string): string[] {
  if (ociRuntime === undefined) return [];
  const path = join(folder, ociRuntime);
  const script = `${existsSync(HYBRID) ? `umount ${HYBRID} && ` : ''}exec ${ociRuntime} "$@"`;
  writeFileSync(path, `#!/bin/sh\nexec unshare --mount --propagation slave sh -c '${script}' sh "$@"\n`);
  chmodSync(path, 0o755);
  return [`--add-runtime=${ociRuntime}=${path}`, `--default-runtime=${ociRuntime}`];
}
