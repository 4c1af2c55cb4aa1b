import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** Builds the packages, whose programs some unit tests start as processes. */
export function setup(): void {
  const argv = [join('scripts', 'build-if-needed.mjs'), 'libraries', 'clients'];
  execFileSync(process.execPath, argv, { stdio: 'inherit' });
}
