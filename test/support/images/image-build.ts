import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { BuildContext } from './build-context.js';
import { readStages, type Stage } from './dockerfile.js';

const run = promisify(execFile);

/** Most that a step may take, in milliseconds. */
const STEP_MS = 240_000;

/** A stage whose steps have been executed. */
export interface BuiltStage {
  readonly stage: Stage;
  /** Folder that stands for the root of the image's file system. */
  readonly root: string;
  /** Working directory, as a path of the image. */
  readonly workdir: string;
  /** What ENV said, here and in the stages that this one comes from. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Executes the steps of a Dockerfile on this machine, each stage in a folder that stands for its file system. An image
 * that a stage comes from counts as empty: its programs are those of this machine. Steps of RUN work in their working
 * directory and must name no other path.
 */
export class ImageBuild {
  private readonly built = new Map<string, BuiltStage>();

  private constructor(
    private readonly context: BuildContext,
    private readonly folder: string,
  ) {}

  /**
   * @param folder an empty one for the stages, removed by who calls
   * @throws Error with the output of a step that fails
   */
  static async execute(dockerfile: string, context: BuildContext, folder: string): Promise<ImageBuild> {
    const build = new ImageBuild(context, folder);
    for (const stage of readStages(dockerfile)) await build.add(stage);
    return build;
  }

  /** @throws Error when the Dockerfile has no such stage */
  stage(name: string): BuiltStage {
    const stage = this.built.get(name);
    if (stage === undefined) throw new Error(`no stage ${name}`);
    return stage;
  }

  private async add(stage: Stage): Promise<void> {
    const root = join(this.folder, stage.name);
    const parent = this.built.get(stage.from);
    if (parent === undefined) mkdirSync(root);
    else await copyTree(parent.root, root);
    let workdir = parent?.workdir ?? '/';
    const env = { ...parent?.env };
    for (const step of stage.steps) {
      if (step.kind === 'workdir') {
        workdir = step.path;
        mkdirSync(join(root, workdir), { recursive: true });
      } else if (step.kind === 'env') {
        env[step.name] = step.value;
      } else if (step.kind === 'copy') {
        const to = step.to.startsWith('/') ? step.to : `${workdir}/${step.to}`;
        await this.copy(step.from, step.sources, join(root, to), step.to.endsWith('/'));
      } else {
        const cwd = join(root, workdir);
        const options = { cwd, env: stepEnvironment(env), timeout: STEP_MS, maxBuffer: 2 ** 26 };
        await run('/bin/sh', ['-ec', step.script], options);
      }
    }
    this.built.set(stage.name, { stage, root, workdir, env });
  }

  private async copy(
    from: string | null,
    sources: readonly string[],
    to: string,
    intoFolder: boolean,
  ): Promise<void> {
    for (const source of sources) {
      if (from === null) {
        this.copyFromContext(source, to, intoFolder);
        continue;
      }
      const path = join(this.stage(from).root, source);
      if (statSync(path).isDirectory()) await copyTree(path, to);
      else copyInto(path, intoFolder ? join(to, basename(source)) : to);
    }
  }

  private copyFromContext(source: string, to: string, intoFolder: boolean): void {
    const files = this.context.files().filter((path) => path === source || path.startsWith(`${source}/`));
    if (files.length === 0) throw new Error(`COPY ${source}: not in the context`);
    for (const path of files) {
      const inside = path.slice(source.length);
      const target = inside !== '' ? join(to, inside) : intoFolder ? join(to, basename(source)) : to;
      copyInto(join(this.context.root, path), target);
    }
  }
}

/** By hard links, which is quick: the steps here replace and remove files of the stages before, and change none in place. */
async function copyTree(from: string, to: string): Promise<void> {
  mkdirSync(dirname(to), { recursive: true });
  await run('cp', existsSync(to) ? ['-alT', from, to] : ['-al', from, to]);
}

function copyInto(path: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  copyFileSync(path, target);
}

/** What npm told this process about itself stays away; where the registry and its cache are does not. */
function stepEnvironment(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) =>
      !/^(?:NODE_|SERVICE_|DATABASE_URL$|TEST_DATABASE_URL$|CI$|npm_(?!config_))/.test(name) &&
      !/^npm_config_(?:local_prefix|prefix|global_prefix|omit|include)$/.test(name),
  );
  return { ...Object.fromEntries(kept), npm_config_prefer_offline: 'true', ...env };
}

/** Size of all files below a folder, in bytes. */
export function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
