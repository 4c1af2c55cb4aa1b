import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type Dockerode from 'dockerode';
import {
  connectEngine,
  engineMessage,
  engineStatus,
  engineProblem,
} from '@longshore/worker/runtime/docker/engine/docker-engine';
import { namedEngine, readEngineAddress } from '@longshore/worker/runtime/docker/engine/engine-address';
import { isJsonObject } from '@longshore/common/json/json-value';
import { errorText } from '@longshore/common/errors';

const BUILD_MS = 120_000;
const SOURCE_FILES = ['Dockerfile', 'program'] as const;
const SOURCE_LABEL = 'longshore.example.source';

/** How the worker of the demo executes runs. */
export interface DemoRuntime {
  readonly name: 'docker' | 'process';
  /** Why, as a sentence without its full stop. */
  readonly reason: string;
}

/** What the choice of a runtime depends on. */
export interface DemoRuntimeChoice {
  /** SERVICE_WORKER_RUNTIME, and DOCKER_HOST with what belongs to it. */
  readonly env: NodeJS.ProcessEnv;
  /** Folder with a folder for each example image. */
  readonly imagesDir: string;
  /** Image names by the names of their folders. */
  readonly images: ReadonlyMap<string, string>;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Docker where an engine answers and has, or can build, the images of the examples; plain processes otherwise, unless
 * something names an engine.
 * @throws Error when SERVICE_WORKER_RUNTIME, DOCKER_HOST or a Docker context asks for an engine that cannot be used; the
 * signal's reason when it aborts
 */
export async function chooseDemoRuntime(choice: DemoRuntimeChoice): Promise<DemoRuntime> {
  const wanted = choice.env['SERVICE_WORKER_RUNTIME'] ?? '';
  if (wanted === 'process') return { name: 'process', reason: 'SERVICE_WORKER_RUNTIME says so' };
  if (wanted !== '' && wanted !== 'docker') {
    throw new Error(`SERVICE_WORKER_RUNTIME must be docker or process, not '${wanted}'`);
  }
  const problem = (await engineProblem(choice.env)) ?? (await imagesProblem(choice));
  choice.signal.throwIfAborted();
  if (problem === null) return { name: 'docker', reason: 'a container engine answers' };
  if (wanted === 'docker') throw new Error(`SERVICE_WORKER_RUNTIME is docker, but ${problem}`);
  const named = namedEngine(choice.env);
  if (named !== null) {
    throw new Error(
      `${named} names a container engine, but ${problem}. ` +
        'To run the examples as plain processes, without isolation, set SERVICE_WORKER_RUNTIME=process',
    );
  }
  return { name: 'process', reason: problem };
}

async function imagesProblem({
  env,
  imagesDir,
  images,
  say,
  signal,
}: DemoRuntimeChoice): Promise<string | null> {
  const engine = await connectEngine(readEngineAddress(env));
  for (const [name, image] of images) {
    const problem = await provideImage(engine, { folder: join(imagesDir, name), image, say, signal });
    if (problem !== null) return `the engine answers, but the example image ${image} ${problem}`;
  }
  return null;
}

interface ImagePlan {
  readonly folder: string;
  readonly image: string;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Sees to it that the engine has the image, of these very sources if it can. @returns what is in the way, or null */
async function provideImage(engine: Dockerode, plan: ImagePlan): Promise<string | null> {
  let source: string;
  try {
    source = await computeDigest(plan.folder);
  } catch (error) {
    return `has no sources: ${errorText(error)}`;
  }
  const present = await readSource(engine, plan.image);
  if (present === source) return null;
  plan.say(`building the image ${plan.image}`);
  try {
    await build(engine, plan, source);
    return null;
  } catch (error) {
    const reason = engineMessage(error);
    if (present === null) return `cannot be built: ${reason}`;
    plan.say(`it cannot be built (${reason}); the one that is here will do`);
    return null;
  }
}

/** The label of the image that says what it was built from, '' when it has none; null when there is no such image. */
async function readSource(engine: Dockerode, image: string): Promise<string | null> {
  try {
    const { Config } = await engine.getImage(image).inspect();
    return Config.Labels?.[SOURCE_LABEL] ?? '';
  } catch (error) {
    if (engineStatus(error) === 404) return null;
    throw error;
  }
}

async function computeDigest(folder: string): Promise<string> {
  const hash = createHash('sha256');
  for (const name of SOURCE_FILES) hash.update(`${name}\0`).update(await readFile(join(folder, name)));
  return hash.digest('hex');
}

/** @throws Error with the engine's own words */
async function build(engine: Dockerode, { folder, image, signal }: ImagePlan, source: string): Promise<void> {
  const report = await engine.buildImage(
    { context: folder, src: [...SOURCE_FILES] },
    {
      t: image,
      labels: { [SOURCE_LABEL]: source },
      rm: true,
      forcerm: true,
      abortSignal: AbortSignal.any([signal, AbortSignal.timeout(BUILD_MS)]),
    },
  );
  const lines = await new Promise<readonly unknown[]>((resolve, reject) => {
    engine.modem.followProgress(report, (error: Error | null, told: readonly unknown[]) => {
      if (error === null || error === undefined) resolve(told);
      else reject(error);
    });
  });
  // A build that fails does so in its report, after the engine has answered 200.
  for (const line of lines) {
    if (isJsonObject(line) && typeof line['error'] === 'string') throw new Error(line['error']);
  }
}
