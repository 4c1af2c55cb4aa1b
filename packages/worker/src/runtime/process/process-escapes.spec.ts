import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'vitest';
import { killMarked, markedProcesses, processStamp, signalGroup } from './process-table.js';

const onLinux = process.platform === 'linux' ? it : it.skip;

describe('the processes of a run', () => {
  onLinux(
    'end in another session, and where they have cleared their environment, and no other process',
    async () => {
      const mark = `SERVICE_INPUT_PATH=/tmp/${process.pid}-escapes/input.json`;
      const [name = '', value] = mark.split('=');
      const env = { PATH: process.env['PATH'], [name]: value };
      const script = `setsid sh -c 'env -i sleep 600 & echo $!; wait' & wait`;
      const leader = spawn('sh', ['-c', script], {
        env,
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      const stranger = spawn('sleep', ['600'], {
        env: { ...env, [name]: `${value}.other` },
        stdio: 'ignore',
      });
      const [printed] = await once(leader.stdout, 'data');
      const child = Number(String(printed));
      assert.ok(markedProcesses(mark).includes(child));
      // As a cancel: the leader ends, the session does not.
      signalGroup(leader.pid ?? 0, 'SIGTERM');
      await once(leader, 'exit');
      assert.notEqual(processStamp(child), null);
      await killMarked(mark);
      assert.deepEqual(markedProcesses(mark), []);
      assert.equal(processStamp(child), null);
      assert.notEqual(processStamp(stranger.pid ?? 0), null);
      stranger.kill('SIGKILL');
      await once(stranger, 'exit');
    },
  );
});
