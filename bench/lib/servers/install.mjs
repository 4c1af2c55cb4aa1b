import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../root.mjs';

const BENCH = join(ROOT, 'bench');
const MARK = join(BENCH, 'node_modules/.installed-by');

/**
 * Installs the peers by bench/package-lock.json, unless they are there.
 * @throws Error when npm fails
 */
export async function installPeers() {
  const lock = await readFile(join(BENCH, 'package-lock.json'), 'utf8');
  if ((await readFile(MARK, 'utf8').catch(() => null)) === lock) return;
  process.stdout.write('installing the peers (npm ci in bench/) ...\n');
  const child = spawn('npm', ['ci', '--loglevel', 'error'], { cwd: BENCH, stdio: 'inherit' });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`npm ci in bench/ failed with ${code}`);
  await writeFile(MARK, lock);
}
