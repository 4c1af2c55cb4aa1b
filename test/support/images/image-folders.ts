import { chmodSync, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const BUSYBOX = '/bin/busybox';

/** Makes an image as a folder, with a shell as its entrypoint: what charliecloud and runc execute. */
export function makeImageFolder(imagesDir: string, name: string, script: string): void {
  const root = join(imagesDir, name);
  for (const folder of ['bin', 'dev', 'etc', 'mnt', 'proc', 'sys', 'tmp'])
    mkdirSync(join(root, folder), { recursive: true });
  for (const file of ['group', 'passwd']) writeFileSync(join(root, 'etc', file), '');
  copyFileSync(BUSYBOX, join(root, 'bin', 'busybox'));
  chmodSync(join(root, 'bin', 'busybox'), 0o755);
  for (const applet of ['cat', 'echo', 'env', 'printenv', 'sh', 'sleep', 'true'])
    symlinkSync('busybox', join(root, 'bin', applet));
  const config = { Entrypoint: ['/bin/sh', '-c', script, 'entry'], Cmd: ['cmd'], Env: ['FROM_IMAGE=yes'] };
  writeFileSync(join(imagesDir, `${name}.json`), JSON.stringify({ config }));
}
