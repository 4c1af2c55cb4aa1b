import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { readCpuSeconds } from './cpu.mjs';
import { stoppedAtTheEnd } from './leftovers.mjs';
import { ROOT } from '../root.mjs';

/**
 * Starts a bare node:http server, in a process of its own, that reads and parses bodies and answers to everything what
 * the service answered to one request.
 * @param answer as `send` gives it
 * @returns like `startService`
 */
export async function startBare({ status, header, text }) {
  const child = fork(join(ROOT, 'bench/lib/servers/bare-server.mjs'));
  const gone = once(child, 'exit');
  child.send({ status, type: header('Content-Type') ?? 'application/json', text: text() });
  const [port] = await once(child, 'message');
  return {
    url: `http://127.0.0.1:${port}`,
    pid: child.pid,
    cpuSeconds: () => readCpuSeconds(child.pid),
    stop: stoppedAtTheEnd(async () => {
      child.disconnect();
      await gone;
    }),
  };
}
