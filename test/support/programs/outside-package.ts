import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { cleanEnvironment, PROJECT } from '../service-process.js';
import { makeTestDirectory } from '../test-cluster.js';

const run = promisify(execFile);

/** Folder of a package outside the checkout, with packages of this project installed from their `npm pack` tarballs. */
export class OutsidePackage {
  private constructor(readonly folder: string) {}

  /**
   * Makes a package by commands of a page; npm gets what it depends on from the registry.
   * @param commands begin in the checkout; `~` is a new folder
   * @param name of the folder in `~` that they make
   */
  static async follow(commands: string, name: string): Promise<OutsidePackage> {
    const home = await makeTestDirectory('outside-');
    await run('sh', ['-ec', commands.replaceAll('~', home)], {
      cwd: PROJECT,
      env: cleanEnvironment(),
      maxBuffer: 64 * 1024 * 1024,
    });
    return new OutsidePackage(join(home, name));
  }

  /**
   * Installs without the network: other packages are links into the checkout.
   * @param names packages of this project, each with the ones that it depends on
   */
  static async install(names: readonly string[]): Promise<OutsidePackage> {
    const outside = new OutsidePackage(await mkdtemp(join(tmpdir(), 'longshore-outside-')));
    await linkPackages(join(PROJECT, 'node_modules'), join(outside.folder, 'node_modules'));
    const selected = names.flatMap((name) => ['--workspace', name]);
    const { stdout } = await run(
      'npm',
      ['pack', '--ignore-scripts', '--pack-destination', outside.folder, '--json', ...selected],
      { cwd: PROJECT, env: cleanEnvironment(), maxBuffer: 64 * 1024 * 1024 },
    );
    const packed: { name: string; filename: string }[] = JSON.parse(stdout);
    for (const { name, filename } of packed) {
      const target = outside.installed(name);
      await mkdir(target, { recursive: true });
      await run('tar', ['-xzf', join(outside.folder, filename), '-C', target, '--strip-components=1']);
      await outside.linkCommands(name);
    }
    return outside;
  }

  /** Path of a file of an installed package. */
  installed(name: string, ...path: readonly string[]): string {
    return join(this.folder, 'node_modules', name, ...path);
  }

  /** Path of a command that an installed package brings. */
  command(name: string): string {
    return this.installed('.bin', name);
  }

  /** Paths of the files of an installed package, below its folder. */
  async filesOf(name: string): Promise<string[]> {
    const entries = await readdir(this.installed(name), { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(this.installed(name), join(entry.parentPath, entry.name)));
  }

  /** Runs `tsc`. @throws Error with the errors that it finds */
  async build(...args: readonly string[]): Promise<void> {
    const tsc = this.installed('typescript', 'bin', 'tsc');
    await run(process.execPath, [tsc, ...args], { cwd: this.folder }).catch((error: { stdout?: string }) => {
      throw new Error(error.stdout, { cause: error });
    });
  }

  remove(): Promise<void> {
    return rm(this.folder, { recursive: true, force: true });
  }

  /** Makes the commands of a package executable in `node_modules/.bin`, as npm does. */
  private async linkCommands(name: string): Promise<void> {
    const { bin = {} }: { bin?: Record<string, string> } = JSON.parse(
      await readFile(this.installed(name, 'package.json'), 'utf8'),
    );
    for (const [command, path] of Object.entries(bin)) {
      await mkdir(this.installed('.bin'), { recursive: true });
      await chmod(this.installed(name, path), 0o755);
      await symlink(this.installed(name, path), this.command(command));
    }
  }
}

/** Links every package of a node_modules folder but those of this project. */
export async function linkPackages(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const name of await readdir(from)) {
    if (name.startsWith('.') || name === '@longshore') continue;
    if (name.startsWith('@')) await linkPackages(join(from, name), join(to, name));
    else await symlink(join(from, name), join(to, name));
  }
}
