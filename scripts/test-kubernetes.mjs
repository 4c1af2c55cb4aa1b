/* oxlint-disable no-console -- a command for the terminal */
// `npm run test:kubernetes -- [path of a spec ...] [-t NAME] [--record]`: starts a real Kubernetes, runs its specs against
// it, and ends it. `--record` writes test/support/kubernetes/recordings anew from what the cluster sends.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const SCRIPT = join(ROOT, 'scripts', 'kubernetes', 'cluster.sh');

function cluster(command) {
  return spawnSync('bash', [SCRIPT, command], { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}

async function main(args) {
  const options = args.filter((arg) => arg !== '--record');
  const paths = options.some((arg) => arg.startsWith('test/')) ? [] : ['test/e2e/engines/kubernetes-'];
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const child = spawn(process.execPath, [vitest, 'run', '--reporter', 'verbose', ...paths, ...options], {
    cwd: ROOT,
    stdio: 'inherit',
    env: {
      ...process.env,
      LONGSHORE_REQUIRE_KUBERNETES: '1',
      ...(args.includes('--record') ? { LONGSHORE_RECORD: '1' } : {}),
    },
  });
  // The tests end by themselves, so that the cluster is ended after them.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  const [code] = await once(child, 'exit');
  return code ?? 1;
}

if (!cluster('check')) {
  console.error('the tests with a real Kubernetes did not run');
  process.exitCode = 1;
} else if (cluster('up')) {
  process.exitCode = await main(process.argv.slice(2));
  cluster('down');
} else {
  process.exitCode = 1;
}
