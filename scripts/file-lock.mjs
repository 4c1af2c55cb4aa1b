// A lock between processes: a file with the id of its owner.
import { existsSync } from 'node:fs';
import { readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const LOCK_REFRESH_MS = 1000;
/** A lock that was not refreshed for this long is abandoned, even if its process id is in use. */
const LOCK_ABANDONED_MS = 60_000;

/** Takes the lock file, waiting while its owner lives. @returns {Promise<() => Promise<void>>} its release */
export async function takeLock(path, signal) {
  for (;;) {
    signal?.throwIfAborted();
    try {
      await writeFile(path, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') {
        throw error;
      }
    }
    await removeAbandoned(path);
    await sleep(100);
  }
  const refresh = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, LOCK_REFRESH_MS);
  refresh.unref();
  return async () => {
    clearInterval(refresh);
    await rm(path, { force: true });
  };
}

/** Removes the lock of a process that is gone. A lock that another waiter has taken meanwhile is put back. */
async function removeAbandoned(path) {
  if (await isAbandoned(path)) {
    const moved = `${path}.${process.pid}`;
    await rename(path, moved).catch(() => {});
    if (existsSync(moved)) {
      await ((await isAbandoned(moved)) ? rm(moved) : rename(moved, path));
    }
  }
}

async function isAbandoned(path) {
  try {
    const owner = Number(await readFile(path, 'utf8'));
    const { mtimeMs } = await stat(path);
    // An empty file has just been created, and its owner is about to write its id.
    return Date.now() - mtimeMs > LOCK_ABANDONED_MS || (owner > 0 && !isAlive(owner));
  } catch {
    return false;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}
