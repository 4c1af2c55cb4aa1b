import assert from 'node:assert/strict';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { CodeBlock } from '../docs/doc-pages.js';
import { COMPILED, launch, makeDataDir, PROJECT, type TestProcess } from '../service-process.js';

/** The address that pages name; the service under test has another one. */
const WRITTEN_URL = 'http://127.0.0.1:5555';

/** What a checkout has of its own in each clone. */
const NOT_SHARED = new Set(['.git', '.build', '.data', '.env', 'dist', 'dist.next', 'dist.previous']);

/**
 * Somebody who follows a page in a fresh checkout: blocks of one page run in their order in one shell, so that what one
 * sets the next one has. `longshore` is on the path, nothing else is set up.
 */
export class PageShell {
  #shell: TestProcess | undefined;
  #url: string | undefined;
  #count = 0;
  readonly #background: TestProcess[] = [];

  private constructor(
    /** The checkout, where commands begin. */
    readonly folder: string,
    private readonly env: Readonly<Record<string, string>>,
  ) {}

  /** @param env on top of that of a person who has a free port and no container engine */
  static async make(env: Readonly<Record<string, string>> = {}): Promise<PageShell> {
    const base = await makeDataDir();
    const folder = join(base, 'checkout');
    const home = join(base, 'home');
    const bin = join(base, 'bin');
    for (const path of [folder, home, bin]) await mkdir(path);
    for (const name of await readdir(PROJECT)) {
      if (!NOT_SHARED.has(name)) await symlink(join(PROJECT, name), join(folder, name));
    }
    await symlink(COMPILED, join(folder, 'dist'));
    await symlink(join(PROJECT, 'packages', 'cli', 'bin', 'longshore.mjs'), join(bin, 'longshore'));
    return new PageShell(folder, {
      HOME: home,
      XDG_CONFIG_HOME: join(home, '.config'),
      PATH: `${bin}:${process.env['PATH'] ?? ''}`,
      SERVICE_PORT: '0',
      npm_config_update_notifier: 'false',
      ...env,
    });
  }

  /** Where the service of the page answers. @throws AssertionError when no block has started one */
  get url(): string {
    return this.#url ?? assert.fail('the page starts no service');
  }

  /**
   * Runs a block: to its end, or, one that is a `service` or a `worker`, until it is ready.
   * @returns what a block that ends has printed, both streams. @throws AssertionError when a command fails
   */
  async run({ kind, code, line }: CodeBlock): Promise<string> {
    const here = this.#url === undefined ? code : code.replaceAll(WRITTEN_URL, this.#url);
    if (kind === 'service') {
      const started = await this.startBeside(here);
      const [, url] = await started.untilOutput(/listening on (http:\/\/[\d.:]+)/);
      this.#url = url;
      await this.type(`export SERVICE_URL=${url}`, line);
      return '';
    }
    if (kind === 'worker') {
      await (await this.startBeside(here)).untilOutput(/registered at the service/);
      return '';
    }
    return this.type(here, line);
  }

  /** Gives lines to the shell that stand on no page. */
  type(code: string, line = 0): Promise<string> {
    return this.execute(code, `line ${line}`);
  }

  /** Ends what the page has started, the newest first. */
  async close(): Promise<void> {
    this.#shell?.child.stdin?.end();
    await this.#shell?.exited;
    for (const started of this.#background.toReversed()) {
      started.signal('SIGTERM', 'group');
      await started.exited;
    }
  }

  private async startBeside(code: string): Promise<TestProcess> {
    const env = this.#url === undefined ? this.env : { ...this.env, SERVICE_URL: this.#url };
    const started = await launch(['bash', '-euc', code], { cwd: this.folder, env });
    this.#background.push(started);
    return started;
  }

  private async execute(code: string, where: string): Promise<string> {
    this.#shell ??= await launch(['bash', '-eu', '-o', 'pipefail'], {
      cwd: this.folder,
      env: this.env,
      takesInput: true,
    });
    const shell = this.#shell;
    this.#count += 1;
    const file = join(this.folder, '..', `block-${this.#count}.sh`);
    await writeFile(file, code);
    const before = shell.output.length;
    // A command that reads its standard input must not eat the next block.
    shell.child.stdin?.write(`source '${file}' </dev/null\necho "end of block ${this.#count}"\n`);
    const ended = await Promise.race([
      shell.untilOutput(new RegExp(`end of block ${this.#count}\n`)).then(() => true),
      shell.exited.then(() => false),
    ]).catch(() => false);
    const output = shell.output.slice(before).replace(/end of block \d+\n$/, '');
    assert.ok(ended, `${where} failed:\n${code}\nIt printed:\n${output}`);
    return output;
  }
}
