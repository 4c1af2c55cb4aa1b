/* oxlint-disable no-console -- a command for the terminal */
// `npm run test:kubernetes -- [part of a path ...] [--name PATTERN] [--record]`: starts a real Kubernetes, runs its specs
// against it, and ends it. `--record` writes test/support/kubernetes/recordings anew from what the cluster sends.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from './test-process.mjs';

const SCRIPT = join(ROOT, 'scripts', 'kubernetes', 'cluster.sh');

function cluster(command) {
  return spawnSync('bash', [SCRIPT, command], { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}

async function main(args) {
  const options = args.filter((arg) => arg !== '--record');
  const paths = options.some((arg) => arg.startsWith('test/')) ? [] : ['test/e2e/engines/kubernetes-'];
  const child = spawn(
    process.execPath,
    [join(ROOT, 'scripts', 'test.mjs'), '--notes', ...paths, ...options],
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        LONGSHORE_REQUIRE_KUBERNETES: '1',
        // Nodes and launchers are waited for.
        TEST_FILE_TIMEOUT_MS: '1200000',
        ...(args.includes('--record') ? { LONGSHORE_RECORD: '1' } : {}),
      },
    },
  );
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
