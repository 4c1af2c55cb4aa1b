import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { ownProcessToken, tokenIsAlive } from './process-identity.js';
import { withStartLock } from './start-lock.js';

const LOCK_MODULE = new URL('../dist/start-lock.js', import.meta.url).href;

describe('the start lock', () => {
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'lock-'));
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  async function lockDirectory(name: string): Promise<string> {
    const path = join(directory, name);
    await mkdir(path);
    return path;
  }

  it('lets one in at a time, also when processes die inside it', async () => {
    const lock = await lockDirectory('many');
    const counter = join(directory, 'counter');
    const trace = join(directory, 'trace');
    await writeFile(counter, '0');
    await writeFile(trace, '');
    // Reads, waits, writes: whoever is inside together with another loses an update. Every fourth turn ends in death.
    const program = `
      import { withStartLock } from ${JSON.stringify(LOCK_MODULE)};
      import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
      import { setTimeout as sleep } from 'node:timers/promises';
      for (let turn = 0; turn < 8; turn += 1) {
        await withStartLock(${JSON.stringify(lock)}, { timeoutMs: 120000 }, async () => {
          const value = Number(readFileSync(${JSON.stringify(counter)}, 'utf8'));
          await sleep(2);
          writeFileSync(${JSON.stringify(counter)}, String(value + 1));
          appendFileSync(${JSON.stringify(trace)}, 'x');
          if (turn === 3 && process.argv[1] === 'dies') process.kill(process.pid, 'SIGKILL');
        });
      }`;
    const children = ['lives', 'dies', 'lives', 'dies', 'lives', 'dies'].map((fate) =>
      spawn(process.execPath, ['--input-type=module', '-e', program, fate], {
        stdio: ['ignore', 'ignore', 'inherit'],
      }),
    );
    const ends = await Promise.all(children.map((child) => once(child, 'exit')));
    assert.deepEqual(
      ends.map(([code]) => code),
      [0, null, 0, null, 0, null],
    );
    const entries = (await readFile(trace, 'utf8')).length;
    assert.equal(entries, 3 * 8 + 3 * 4);
    assert.equal(Number(await readFile(counter, 'utf8')), entries);
  });

  it('is freed by an action that throws, and clears away old tickets', async () => {
    const lock = await lockDirectory('thrown');
    const options = { timeoutMs: 60_000 };
    await assert.rejects(
      withStartLock(lock, options, () => Promise.reject(new Error('inside'))),
      /inside/,
    );
    for (let turn = 0; turn < 100; turn += 1) await withStartLock(lock, options, () => Promise.resolve());
    assert.ok((await readdir(lock)).length < 40);
  });

  it('gives up in time, naming the holder, and tells once that it waits', async () => {
    const lock = await lockDirectory('held');
    let waits = 0;
    await withStartLock(lock, { timeoutMs: 1_000 }, () =>
      assert.rejects(
        withStartLock(lock, { timeoutMs: 200, onWait: () => (waits += 1) }, () => Promise.resolve()),
        new RegExp(`process ${process.pid} has kept the lock`),
      ),
    );
    assert.equal(waits, 1);
  });

  it('is not held by a process of an earlier boot or of an earlier use of the pid', async () => {
    const [pid, started, boot] = (await ownProcessToken()).split(':');
    assert.equal(await tokenIsAlive(`${pid}:${started}:${boot}`), true);
    const dead = [`${pid}:1:${boot}`, `${pid}:${started}:another-boot`, 'nonsense', ''];
    for (const [index, token] of dead.entries()) {
      if (process.platform !== 'linux' && index === 1) continue;
      assert.equal(await tokenIsAlive(token), false, token);
      const lock = await lockDirectory(`dead-${index}`);
      if (token !== '') await symlink(token, join(lock, '5'));
      assert.equal(await withStartLock(lock, { timeoutMs: 1_000 }, () => Promise.resolve('in')), 'in');
    }
  });

  it('takes a zombie for dead', async () => {
    const lock = await lockDirectory('zombie');
    const child = spawn('sh', ['-c', 'sleep 0 & exec sleep 30'], { stdio: 'ignore' });
    await once(child, 'spawn');
    let zombie: string | undefined;
    for (let tries = 0; zombie === undefined && tries < 500; tries += 1) {
      await sleep(10);
      zombie = await zombieChildOf(child.pid ?? 0);
    }
    if (zombie !== undefined) await symlink(zombie, join(lock, '1'));
    try {
      assert.equal(await withStartLock(lock, { timeoutMs: 1_000 }, () => Promise.resolve('in')), 'in');
      if (process.platform === 'linux') assert.notEqual(zombie, undefined);
    } finally {
      child.kill('SIGKILL');
    }
  });
});

/** Token of a dead child that its parent has not collected; Linux only. */
async function zombieChildOf(parent: number): Promise<string | undefined> {
  const names = await readdir('/proc').catch(() => []);
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  for (const name of names.filter((entry) => /^\d+$/.test(entry))) {
    const text = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' && Number(fields[1]) === parent) return `${name}:${fields[19]}:${boot.trim()}`;
  }
  return undefined;
}
