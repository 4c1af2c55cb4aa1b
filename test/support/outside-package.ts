import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cleanEnvironment, PROJECT } from './service-process.js';

const run = promisify(execFile);

/** A package of somebody else, in a folder of its own, with the packed service among its dependencies. */
export interface OutsidePackage {
  readonly folder: string;
  /** The service's program, as it is installed there. */
  readonly serviceMain: string;
  /** Runs the package's `tsc`. @throws Error with its output when it finds errors */
  build(): Promise<void>;
  remove(): Promise<void>;
}

/**
 * Copies a package of the checkout and installs its dependencies as npm does, without the network: the service from
 * what `npm pack` packs, everything else as links to the packages of the checkout.
 * @param source its folder, from the checkout's root
 */
export async function installOutside(source: string): Promise<OutsidePackage> {
  const folder = await mkdtemp(join(tmpdir(), 'longshore-outside-'));
  const modules = join(folder, 'node_modules');
  await cp(join(PROJECT, source), folder, { recursive: true });
  await linkPackages(join(PROJECT, 'node_modules'), modules);
  const service = join(modules, 'longshore');
  await mkdir(service);
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder, '--json'], {
    cwd: PROJECT,
    env: cleanEnvironment(),
    maxBuffer: 64 * 1024 * 1024,
  });
  const [{ filename }] = JSON.parse(stdout);
  await run('tar', ['-xzf', join(folder, filename), '-C', service, '--strip-components=1']);
  return {
    folder,
    serviceMain: join(service, 'dist', 'src', 'main.js'),
    build: async () => {
      const tsc = join(modules, 'typescript', 'bin', 'tsc');
      await run(process.execPath, [tsc], { cwd: folder }).catch((error: { stdout?: string }) => {
        throw new Error(error.stdout, { cause: error });
      });
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

async function linkPackages(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const name of await readdir(from)) {
    if (name.startsWith('.')) continue;
    if (name.startsWith('@')) await linkPackages(join(from, name), join(to, name));
    else await symlink(join(from, name), join(to, name));
  }
}
