import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PROJECT, until } from '../service-process.js';

/**
 * Replaces Nest's CLI, tsc and Vite: notes each call in `NAME.log`, writes the output, and fails on "syntax error". The CLI
 * deletes its output first where it is configured so.
 */
const COMPILER = `
import { appendFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
const [, path, ...argv] = process.argv;
const name = path.includes('nest') ? 'nest' : path.includes('vite') ? 'vite' : 'tsc';
appendFileSync(name + '.log', argv.join(' ') + '\\n');
await new Promise((resolve) => setTimeout(resolve, Number(process.env.COMPILE_MS ?? 0)));
if (name === 'nest') {
  const file = argv.includes('--config') ? argv[argv.indexOf('--config') + 1] : 'nest-cli.json';
  if (JSON.parse(readFileSync(file, 'utf8')).compilerOptions.deleteOutDir) rmSync('dist', { recursive: true, force: true });
}
const folders = name === 'nest' ? ['src'] : name === 'vite' ? ['packages/dashboard'] : argv.filter((word) => word.startsWith('packages/'));
const output = { nest: 'dist/src/main.js', vite: 'packages/dashboard/dist/index.html' };
for (const folder of argv.includes('-p') ? ['demo'] : folders) {
  let text = '';
  for (const file of readdirSync(folder, { recursive: true })) {
    if (!/(^|src.)[^/]+\\.(ts|html)$/.test(file)) continue;
    text = readFileSync(join(folder, file), 'utf8');
    if (text.includes('syntax error')) { console.log(join(folder, file) + ': broken'); process.exit(1); }
  }
  const target = output[name] ?? (folder === 'demo' ? '.build/demo/demo/main.js' : join(folder, 'dist/main.js'));
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, text);
}
`;

const PACKAGES = ['common', 'embedded-postgres', 'client', 'worker', 'launchers', 'cli', 'conformance'];

/** How a script ended and what it printed to both outputs. */
export interface Ended {
  readonly code: unknown;
  readonly output: string;
}

/** Collects what a started script prints, until it has ended. */
export async function endOf(child: ChildProcess): Promise<Ended> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const [code]: unknown[] = await once(child, 'close');
  return { code, output };
}

/** A tiny project in a temporary folder that has the real scripts of this one, and compilers that copy. */
export class ScriptProject {
  private constructor(private readonly folder: string) {}

  static async create(): Promise<ScriptProject> {
    const project = new ScriptProject(await mkdtemp(join(tmpdir(), 'longshore-scripts-')));
    for (const name of ['build-if-needed.mjs', 'run.mjs']) {
      await project.write(join('scripts', name), await readFile(join(PROJECT, 'scripts', name), 'utf8'));
    }
    await project.write('package.json', '{"type":"module"}');
    await project.write('openapi.json', '{}');
    await project.write('nest-cli.json', '{"compilerOptions":{"deleteOutDir":true}}');
    for (const tool of ['typescript/bin/tsc', '@nestjs/cli/bin/nest.js', 'vite/bin/vite.js']) {
      await project.write(join('node_modules', tool), COMPILER);
      const manifest = join('node_modules', dirname(dirname(tool)), 'package.json');
      await project.write(manifest, '{"type":"module"}');
    }
    await project.write(
      'node_modules/openapi-typescript/index.js',
      'export default JSON.stringify; export const astToString = (text) => text;',
    );
    await project.write(
      'node_modules/openapi-typescript/package.json',
      '{"type":"module","name":"openapi-typescript","exports":"./index.js"}',
    );
    for (const name of ['proper-lockfile', 'graceful-fs', 'retry', 'signal-exit']) {
      await symlink(join(PROJECT, 'node_modules', name), project.path(join('node_modules', name)));
    }
    for (const name of PACKAGES) await project.write(`packages/${name}/src/main.ts`, '');
    await project.write('demo/main.ts', '');
    await project.write('packages/dashboard/index.html', '<title>Dashboard</title>');
    await project.write('src/main.ts', 'console.log("main", ...process.argv.slice(2));');
    return project;
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  has(name: string): boolean {
    return existsSync(this.path(name));
  }

  async write(name: string, text: string): Promise<void> {
    await mkdir(dirname(this.path(name)), { recursive: true });
    await writeFile(this.path(name), text);
  }

  async append(name: string, text: string): Promise<void> {
    await mkdir(dirname(this.path(name)), { recursive: true });
    await appendFile(this.path(name), text);
  }

  start(script: string, argv: readonly string[] = [], env: NodeJS.ProcessEnv = {}): ChildProcess {
    return spawn(process.execPath, [this.path(`scripts/${script}`), ...argv], {
      cwd: this.folder,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async run(script: string, argv?: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
    return await endOf(this.start(script, argv, env));
  }

  /** Builds what has changed. @returns the parts that were built */
  async build(argv?: readonly string[]): Promise<string[]> {
    const { code, output } = await this.run('build-if-needed.mjs', argv);
    assert.equal(code, 0, output);
    return [...output.matchAll(/^built (\w+) /gm)].map(([, part = '']) => part);
  }

  /** The calls of a compiler so far. */
  async calls(tool: 'nest' | 'tsc' | 'vite'): Promise<string[]> {
    const name = this.path(`${tool}.log`);
    return existsSync(name) ? (await readFile(name, 'utf8')).split('\n').slice(0, -1) : [];
  }

  async untilExists(name: string): Promise<void> {
    await until(() => this.has(name), `${name} appears`);
  }
}
