import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { packageFolder } from '@longshore/common/settings/package-version';

/** Packages whose classes or registries the service and its extensions must share. */
const SHARED_PACKAGES = [
  '@nestjs/common',
  '@nestjs/config',
  '@nestjs/core',
  '@nestjs/schedule',
  '@nestjs/typeorm',
  'class-transformer',
  'longshore',
  'typeorm',
] as const;

/**
 * The shared packages of which a file would load a second copy, each with the folder of that copy. Nest would not inject
 * the service's providers by the classes of another copy, and the service would not recognise its exceptions.
 */
export function secondCopies(file: string): { readonly name: string; readonly folder: string }[] {
  return SHARED_PACKAGES.flatMap((name) => {
    const folder = findPackage(name, file);
    const ours =
      name === 'longshore'
        ? realpathSync(packageFolder(import.meta.dirname))
        : findPackage(name, import.meta.filename);
    return folder === undefined || folder === ours ? [] : [{ name, folder }];
  });
}

/** The folder in which Node.js finds a package for the imports of a file. */
function findPackage(name: string, file: string): string | undefined {
  const folders = (createRequire(file).resolve.paths(name) ?? []).map((folder) => join(folder, name));
  const found = folders.find((folder) => existsSync(join(folder, 'package.json')));
  return found === undefined ? undefined : realpathSync(found);
}
