import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { packageFolder } from './settings/package-version.js';

/**
 * The compiled program of the service: of the installed package `longshore`, else of the checkout that this package is
 * part of. Whether it exists is not checked.
 */
export function serviceProgram(): string {
  return join(serviceFolder(), 'dist', 'src', 'main.js');
}

function serviceFolder(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve('longshore/package.json'));
  } catch {
    return packageFolder(dirname(packageFolder(import.meta.dirname)));
  }
}
