import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { appendFile, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { until } from '../service-process.js';

/**
 * Replaces the Nest CLI (`compiled.log` counts its runs) and tsc (`tsc.log` has its arguments): "compiles" by copying,
 * and fails on a source that contains "syntax error".
 */
const COMPILER = `
import { appendFileSync, cpSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
const isNest = process.argv[1].endsWith('nest.js');
appendFileSync(isNest ? 'compiled.log' : 'tsc.log', isNest ? 'x' : process.argv.slice(2).join(' ') + '\\n');
const config = process.argv.find((text) => text.startsWith('.build/tsconfig'));
if (config !== undefined) {
  const out = resolve(dirname(config), JSON.parse(readFileSync(config, 'utf8')).compilerOptions.outDir);
  await new Promise((resolve) => setTimeout(resolve, Number(process.env.COMPILE_MS ?? 0)));
  for (const name of readdirSync('.', { recursive: true })) {
    if (name.endsWith('.ts') && (isNest ? /^src/ : /^(test|demo)/).test(name)) {
      const text = readFileSync(name, 'utf8');
      if (text.includes('syntax error')) { console.log(name + ': broken'); process.exit(1); }
      mkdirSync(dirname(join(out, name)), { recursive: true });
      cpSync(name, join(out, name.replace(/\\.ts$/, '.js')));
    }
  }
}
`;

/** Replaces Vite: copies the dashboard to its output; fails without the client, and on a source that contains "syntax error". */
const BUNDLER = `
import { appendFileSync, cpSync, existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
if (!existsSync('packages/client/src/schema.ts')) { console.log('the client is not built'); process.exit(1); }
const [, root, , out] = process.argv.slice(2);
appendFileSync('bundled.log', 'x');
for (const { name } of readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isFile())) {
  if (readFileSync(join(root, name), 'utf8').includes('syntax error')) { console.log(name + ': broken'); process.exit(1); }
  cpSync(join(root, name), join(out, name));
}
`;

const PACKAGES = ['common', 'embedded-postgres', 'client', 'worker', 'cli', 'conformance'];

const CLUSTER = `
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
export async function startTestCluster() {
  writeFileSync('cluster-runs', '');
  appendFileSync('cluster.log', 'x');
  return { url: 'postgres://throw-away', stop: async () => rmSync('cluster-runs') };
}
`;

/** How a script ended and what it printed to both outputs. */
export interface Ended {
  readonly code: unknown;
  readonly output: string;
  readonly lastLine: string;
}

function findScripts(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) {
    assert.notEqual(dirname(folder), folder);
    folder = dirname(folder);
  }
  return join(folder, 'scripts');
}

/** Collects what a started script prints, until it has ended. */
export async function endOf(child: ChildProcess): Promise<Ended> {
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const [code]: unknown[] = await once(child, 'close');
  return { code, output, lastLine: output.trimEnd().split('\n').at(-1) ?? '' };
}

/**
 * A tiny project in a temporary folder that has the real scripts of this one, a compiler and a bundler that copy, and a
 * database cluster that only notes that it was started (`cluster.log`) and that it runs (`cluster-runs`).
 */
export class ScriptProject {
  private constructor(private readonly folder: string) {}

  static async create(): Promise<ScriptProject> {
    const project = new ScriptProject(await mkdtemp(join(tmpdir(), 'longshore-scripts-')));
    for (const name of [
      'build-if-needed.mjs',
      'file-lock.mjs',
      'build-and-run.mjs',
      'start.mjs',
      'test.mjs',
      'test-reporter.mjs',
      'run-specs.mjs',
      'test-process.mjs',
    ]) {
      await project.write(join('scripts', name), await readFile(join(findScripts(), name), 'utf8'));
    }
    await project.write('package.json', '{"type":"module"}');
    await project.write('tsconfig.json', '{}');
    await project.write('openapi.json', '{}');
    await project.write('nest-cli.json', '{"compilerOptions":{}}');
    await project.write('node_modules/typescript/bin/tsc', COMPILER);
    await project.write('node_modules/typescript/package.json', '{"type":"module","name":"typescript"}');
    await project.write(
      'node_modules/openapi-typescript/index.js',
      'export default JSON.stringify; export const astToString = (text) => text;',
    );
    await project.write(
      'node_modules/openapi-typescript/package.json',
      '{"type":"module","name":"openapi-typescript","exports":"./index.js"}',
    );
    for (const name of PACKAGES) await project.write(`packages/${name}/dist/main.js`, '');
    await project.write('packages/client/src/client.ts', '');
    await project.write('demo/main.ts', '');
    await project.write('node_modules/@nestjs/cli/bin/nest.js', COMPILER);
    await project.write('node_modules/@nestjs/cli/package.json', '{"type":"module","name":"@nestjs/cli"}');
    await project.write('node_modules/vite/bin/vite.js', BUNDLER);
    await project.write('node_modules/vite/package.json', '{"type":"module","name":"vite"}');
    await project.write('packages/dashboard/index.html', '<title>Dashboard</title>');
    await project.write('test/support/test-cluster.ts', CLUSTER);
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

  async read(name: string): Promise<string> {
    return await readFile(this.path(name), 'utf8');
  }

  async list(name: string): Promise<string[]> {
    return (await readdir(this.path(name))).toSorted();
  }

  async write(name: string, text: string): Promise<void> {
    await mkdir(dirname(this.path(name)), { recursive: true });
    await writeFile(this.path(name), text);
  }

  async append(name: string, text: string): Promise<void> {
    await appendFile(this.path(name), text);
  }

  /** Writes a spec file that has node:test and node:assert at hand. */
  async spec(name: string, body: string): Promise<void> {
    const imports = `import { it, describe, before } from 'node:test'; import assert from 'node:assert/strict';`;
    await this.write(name, `${imports}\n${body}`);
  }

  start(script: string, argv: readonly string[] = [], env: NodeJS.ProcessEnv = {}): ChildProcess {
    const { NODE_TEST_CONTEXT: _context, TEST_DATABASE_URL: _url, CI: _ci, ...own } = process.env;
    return spawn(process.execPath, [this.path(`scripts/${script}`), ...argv], {
      cwd: this.folder,
      env: { ...own, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async run(script: string, argv?: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
    return await endOf(this.start(script, argv, env));
  }

  /** How often the service was compiled, the dashboard bundled, and each call of tsc. */
  async builds(): Promise<{ service: number; dashboard: number; tsc: string[] }> {
    const log = async (name: string): Promise<string> => (this.has(name) ? await this.read(name) : '');
    return {
      service: (await log('compiled.log')).length,
      dashboard: (await log('bundled.log')).length,
      tsc: (await log('tsc.log')).split('\n').slice(0, -1),
    };
  }

  async untilExists(name: string): Promise<void> {
    await until(() => this.has(name), `${name} appears`);
  }
}
