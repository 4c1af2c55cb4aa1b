import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeEach, describe, it } from 'vitest';
import { hostPart, takeIdentity } from './worker-identity.js';

const MODULE = new URL('../../dist/process/worker-identity.js', import.meta.url).href;
/** Prints the id, or what keeps it from it, and stays. */
const HOLDER = `
  const { takeIdentity } = await import(${JSON.stringify(MODULE)});
  const [options] = process.argv.slice(1);
  const take = () => { try { return takeIdentity(JSON.parse(options)).workerId; } catch (error) { return 'refused: ' + error.message; } };
  console.log(take());
  setInterval(() => undefined, 1000);`;

async function kill(holder: ChildProcess): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return;
  holder.kill('SIGKILL');
  await once(holder, 'exit');
}

describe('the identity of a worker', () => {
  const root = mkdtempSync(join(tmpdir(), 'identity-'));
  afterAll(() => rmSync(root, { recursive: true }));
  const holders: ChildProcess[] = [];
  let stateDir: string;

  beforeEach(() => {
    stateDir = mkdtempSync(join(root, 'state-'));
  });
  afterEach(async () => {
    for (const holder of holders.splice(0)) await kill(holder);
  });

  /** Starts a process that takes an identity. @returns its first line, and the process */
  async function hold(
    workerId: string | null,
  ): Promise<{ readonly said: string; readonly process: ChildProcess }> {
    const options = JSON.stringify({ workerId, stateDir, host: 'rack 7' });
    const holder = spawn(process.execPath, ['--input-type=module', '-e', HOLDER, options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    holders.push(holder);
    for await (const said of createInterface({ input: holder.stdout })) return { said, process: holder };
    throw new Error('the process printed nothing');
  }

  it('tells whether an earlier process had the id in this folder', async () => {
    const options = { workerId: 'w-1', stateDir };
    const first = await hold('w-1');
    await kill(first.process);
    assert.equal(takeIdentity({ ...options, workerId: 'w-2' }).isSuccessor, false);
    assert.equal(takeIdentity(options).isSuccessor, true);
  });

  it('gives workers of one machine different ids, and a restarted one its former id', async () => {
    const first = await hold(null);
    assert.match(first.said, /^rack-7-[0-9a-f]{8}$/);
    const second = await hold(null);
    assert.equal(second.said, `${first.said}-2`);
    await kill(first.process);
    assert.equal((await hold(null)).said, first.said);
    assert.equal((await hold(null)).said, `${first.said}-3`);
  });

  it('gives every one of many simultaneous starts an id of its own', async () => {
    const ids = (await Promise.all(Array.from({ length: 8 }, () => hold(null)))).map(({ said }) => said);
    assert.equal(new Set(ids).size, 8, ids.join(' '));
    assert.ok(
      ids.every((id) => id.startsWith('rack-7-')),
      ids.join(' '),
    );
  });

  it('refuses an id in use and names the process, until that has ended', async () => {
    const owner = await hold('gpu/1');
    const expected = `refused: SERVICE_WORKER_ID: the id 'gpu/1' is in use on this machine by process ${owner.process.pid};`;
    assert.ok((await hold('gpu/1')).said.startsWith(expected));
    assert.equal((await hold('gpu/2')).said, 'gpu/2');
    await kill(owner.process);
    const starts = await Promise.all(Array.from({ length: 6 }, () => hold('gpu/1')));
    assert.equal(starts.filter(({ said }) => said === 'gpu/1').length, 1);
    assert.equal(starts.filter(({ said }) => said.startsWith('refused')).length, 5);
  });

  it('takes the lock of a process whose pid belongs to another one now', async () => {
    const { instance } = takeIdentity({ workerId: 'first', stateDir });
    const lock = join(stateDir, 'ids', 'a'.repeat(32));
    mkdirSync(lock);
    symlinkSync(`${process.pid} started-before`, join(lock, '1'));
    const { takeLock } = await import('./worker-identity.js');
    assert.equal(takeLock(lock), null);
    assert.equal(takeLock(lock), process.pid);
    assert.equal(takeIdentity({ workerId: 'second', stateDir }).instance, instance);
  });

  it('keeps its state in a folder for this user alone, below the home folder or else the temporary one', () => {
    const home = join(root, 'home');
    takeIdentity({ workerId: 'a', stateDir: null, env: { HOME: home } });
    assert.equal(statSync(join(home, '.local/state/longshore-worker')).mode & 0o777, 0o700);
    takeIdentity({ workerId: 'a', stateDir: null, env: { HOME: home, XDG_STATE_HOME: join(root, 'xdg') } });
    assert.ok(statSync(join(root, 'xdg/longshore-worker')).isDirectory());
  });

  it('refuses a folder that it cannot use, by the name of the setting', () => {
    const file = join(root, 'file');
    writeFileSync(file, '');
    for (const path of [file, join(file, 'below')]) {
      assert.throws(
        () => takeIdentity({ workerId: 'a', stateDir: path }),
        /^SettingsError: SERVICE_WORKER_STATE_DIR: '.*file.*' cannot be used: /,
      );
    }
  });

  it('derives an id from any host name', () => {
    const cases: [string, string][] = [
      ['host-1', 'host-1'],
      ['.hidden', 'hidden'],
      ['büro pc', 'b-ro-pc'],
      ['---', 'worker'],
      ['', 'worker'],
      ['x'.repeat(300), 'x'.repeat(100)],
    ];
    for (const [host, id] of cases) assert.equal(hostPart(host), id);
  });
});
