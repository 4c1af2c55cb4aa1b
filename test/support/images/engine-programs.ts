import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';

export const BUSYBOX = '/bin/busybox';

/** Where Debian puts daemons, which an ordinary PATH leaves out. */
export const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin:/usr/bin:/bin`;

/** What this machine lacks to start an engine, in one sentence; null when nothing is missing. */
export function missingForEngine(ociRuntime?: string): string | null {
  if (process.platform !== 'linux') return 'no container engine: the tests start one on Linux only';
  const needed = [
    'dockerd',
    'docker-registry',
    'iptables',
    'tar',
    ...(ociRuntime === undefined ? [] : [ociRuntime]),
  ];
  const missing = needed.filter((command) => !isCommand(command));
  if (!existsSync(BUSYBOX)) missing.push('a static busybox');
  if (missing.length > 0)
    return `no container engine: ${missing.join(', ')} not installed (see .ci/install-test-tools.sh)`;
  return process.getuid?.() === 0 ? null : 'no container engine: starting dockerd needs root';
}

function isCommand(name: string): boolean {
  return PATH.split(':').some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}

const STOP_MS = 30_000;

/** Ends a program of an engine with the signal, and by force if it does not end. */
export async function endProcess(child: ChildProcess | null, signal: NodeJS.Signals): Promise<void> {
  if (child === null || child.pid === undefined || child.exitCode !== null || child.signalCode !== null)
    return;
  const ended = once(child, 'exit');
  child.kill(signal);
  const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(force);
}
