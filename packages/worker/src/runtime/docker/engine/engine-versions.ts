import { clip } from '@longshore/common/json/text';
import { oneLine } from '@longshore/common/shown-text';
import { SettingsError } from '@longshore/common/settings/setting';
import type Dockerode from 'dockerode';
import type { ContainerEngine } from '../../../service-api/service-api.js';
import type { WorkerSettings } from '../../../settings/worker-settings.js';
import type { RuntimeLog } from '../../runtime.js';
import { defaultRuntime, isRunc, withLimit } from './docker-engine.js';
import { weaknessesOf } from './known-weaknesses.js';

/** Where the table is explained. */
const PAGE = 'docs/security.md#known-weaknesses-of-container-runtimes';

/** UTF-16 units of a text; the service takes 128 characters on one line. */
const MAX_TEXT = 125;

/** What the operator has chosen about the engine. */
export interface EngineCheck extends Pick<WorkerSettings, 'oldEngine' | 'ociRuntime'> {
  readonly log: RuntimeLog;
}

/**
 * Reads the versions of an engine and of the OCI runtime that its containers get, and compares them with the known weaknesses.
 * @param limitMs of each request, in milliseconds
 * @throws SettingsError when the engine does not have the chosen runtime, or has a weakness that the operator refuses
 */
export async function checkEngine(
  engine: Dockerode,
  { oldEngine, ociRuntime, log }: EngineCheck,
  limitMs: number,
): Promise<ContainerEngine> {
  const found = await readVersions(engine, ociRuntime, limitMs);
  const { runtime, runtime_version: version } = found;
  const known = isRunc(runtime) && version !== null ? weaknessesOf(version) : [];
  log.info(found, 'container engine');
  if (known === null)
    log.warn(found, `the version of ${runtime} cannot be compared with its known weaknesses: see ${PAGE}`);
  if (known === null || known.length === 0) return found;
  const words =
    `${runtime} ${version} has known weaknesses by which a run gets at its host: ${known.join(', ')}. Upgrade it, or check that ` +
    `your distribution has mended them in this version: see ${PAGE}`;
  if (oldEngine === 'refuse') throw new SettingsError([`SERVICE_WORKER_OLD_ENGINE=refuse: ${words}`]);
  log.warn({ ...found, known }, words);
  return found;
}

async function readVersions(
  engine: Dockerode,
  ociRuntime: string | null,
  limitMs: number,
): Promise<ContainerEngine> {
  const [said, info] = await Promise.all([
    withLimit(limitMs, 'version', (): Promise<unknown> => engine.version()),
    withLimit(limitMs, 'info', (): Promise<unknown> => engine.info()),
  ]);
  const standard = defaultRuntime(info);
  const offered = Object.keys(Object(Object(info).Runtimes)).toSorted();
  if (ociRuntime !== null && !offered.includes(ociRuntime)) {
    const names = offered.join(', ') || 'none';
    throw new SettingsError([
      `SERVICE_WORKER_OCI_RUNTIME: the container engine does not have the runtime '${ociRuntime}'; it has ${names}`,
    ]);
  }
  const components = componentsOf(said);
  const own = components.find(({ name }) => /^(?:Engine|Podman Engine)$/.test(name));
  const runtime = ociRuntime ?? standard;
  return {
    name: own?.name === 'Podman Engine' ? 'podman' : 'docker',
    version: shown(own?.version ?? String(Object(said).Version ?? '')),
    runtime: shown(runtime) || 'unknown',
    runtime_version: runtimeVersion(components, runtime, standard),
  };
}

interface Component {
  readonly name: string;
  readonly version: string;
}

/** Of Docker: `Engine`, `containerd`, and the default runtime by its name; of Podman: `Podman Engine`, `OCI Runtime (crun)`. */
function componentsOf(said: unknown): Component[] {
  const components: unknown = Object(said).Components;
  return (Array.isArray(components) ? components : []).flatMap((component: unknown) => {
    const { Name: name, Version: version } = Object(component);
    return typeof name === 'string' && typeof version === 'string' ? [{ name, version }] : [];
  });
}

/** Engines tell the version of runc and of the default runtime alone. Null: not told. */
function runtimeVersion(components: readonly Component[], runtime: string, standard: string): string | null {
  const names = isRunc(runtime) ? ['runc', runtime] : [runtime];
  const found = components.find(
    ({ name }) => names.includes(name) || (runtime === standard && name === `OCI Runtime (${runtime})`),
  );
  const [version = ''] = /[0-9]+\.[0-9]+\S*/.exec(found?.version ?? '') ?? [];
  return version === '' ? null : shown(version);
}

function shown(text: string): string {
  return clip(oneLine(text), MAX_TEXT);
}
