import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** Environment variable of a service that is already run by {@link runWithReload}. */
export const RELOAD_CHILD = 'SERVICE_RELOAD_CHILD';

/**
 * Runs the service as a child that restarts on changes, until SIGTERM or SIGINT: with `nest start --watch` where the
 * sources and the Nest CLI are, otherwise with `node --watch` on the built program.
 * @param argv arguments of the service, without node and script
 * @param env environment of the service
 * @returns the exit code of the process: 0 after a signal, otherwise that of the watching program
 */
export async function runWithReload(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { args, cwd } = watchCommand();
  const child = spawn(process.execPath, [...args, ...argv], {
    cwd,
    env: { ...env, [RELOAD_CHILD]: '1' },
    stdio: 'inherit',
  });
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    // The listener stays: npm and the terminal may deliver the same signal twice.
    process.on(signal, () => {
      stopping = true;
      child.kill(signal);
    });
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  return stopping ? 0 : (code ?? 1);
}

/** The arguments of node up to those of the service, and the working directory. */
function watchCommand(): { readonly args: readonly string[]; readonly cwd?: string } {
  const project = dirname(dirname(import.meta.dirname));
  const cli = findNestCli();
  if (cli !== undefined && existsSync(join(project, 'nest-cli.json'))) {
    return { args: [cli, 'start', '--watch', '--preserveWatchOutput', '--'], cwd: project };
  }
  return { args: ['--watch', '--watch-preserve-output', join(import.meta.dirname, 'main.js')] };
}

function findNestCli(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve('@nestjs/cli/bin/nest.js');
  } catch {
    return undefined;
  }
}
