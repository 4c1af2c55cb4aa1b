import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SettingsError } from '@longshore/common/settings/setting';
import type { RuntimeLog } from '@longshore/worker/runtime/runtime';
import type { OfferedVolumes } from '@longshore/worker/runtime/volumes';

/**
 * Looks for the folders of the volumes as far as this machine can tell. One that would be on the file system of the jobs'
 * folder must be there; another one may be on the nodes alone.
 * @param dir folder of the jobs, which exists
 * @throws SettingsError when volumes are missing
 */
export async function checkVolumes(volumes: OfferedVolumes, dir: string, log: RuntimeLog): Promise<void> {
  const problems: string[] = [];
  for (const [volume, { source }] of volumes) {
    const found = await stat(source).catch(() => null);
    if (found?.isDirectory() === true) continue;
    if (found !== null || (await deviceAbove(source)) === (await stat(dir)).dev)
      problems.push(`SERVICE_WORKER_VOLUMES: there is no folder '${source}' for the volume '${volume}'`);
    else log.warn({ volume }, 'the volume is not on this machine: only the nodes know whether it is there');
  }
  if (problems.length > 0) throw new SettingsError(problems);
}

/** The device of the nearest folder above a path that this machine can see. */
async function deviceAbove(path: string): Promise<number> {
  const above = dirname(path);
  const found = await stat(above).catch(() => null);
  return found?.dev ?? deviceAbove(above);
}
