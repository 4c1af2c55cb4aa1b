import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, it } from 'vitest';
import type { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import { parseOutputs } from '@longshore/worker/runtime/outputs';
import type { ContainerExit, ContainerSpec } from '@longshore/worker/runtime/runtime';
import { parseVolumes } from '@longshore/worker/settings/volumes';
import { containerSpec, MemoryLog, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine, type EngineOptions } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

interface Variant {
  readonly what: string;
  readonly options: EngineOptions;
  /** Name of its OCI runtime. */
  readonly runtime: string;
  /** Number on the host of the user 0 of a container. */
  readonly root: number;
}

const VARIANTS: readonly Variant[] = [
  {
    what: 'whose users are others on the host',
    options: { remappedTo: 300_000 },
    runtime: 'runc',
    root: 300_000,
  },
  { what: 'whose runtime is crun', options: { ociRuntime: 'crun' }, runtime: 'crun', root: 0 },
];

// LONGSHORE_TEST_ENGINE runs all specs of Docker on such an engine.
for (const variant of VARIANTS) {
  const forTests = await startTestEngine(variant.options);

  describe(`a container of an engine ${variant.what}`, skipFor(forTests.skip), () => {
    const log = new MemoryLog();
    let docker: DockerRuntime;
    let image: string;
    let base: string;

    beforeAll(async () => {
      image = await forTests.engine.buildScript('core', 'exec sh -c "$1"');
      base = mkdtempSync(join(forTests.engine.folder, 'volumes-'));
      chmodSync(base, 0o755);
      for (const name of ['data', 'out']) mkdirSync(join(base, name));
      chmodSync(join(base, 'out'), 0o777);
      writeFileSync(join(base, 'data', 'set'), 'content\n');
      const volumes = parseVolumes(`data=${base}/data:ro,out=${base}/out`);
      assert.ok(volumes);
      docker = runtimeFor(forTests.engine, { volumes, log });
      await docker.checkVolumes();
    });
    afterEach(async () => {
      assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
    });

    async function execute(
      script: string,
      more: Partial<ContainerSpec> = {},
    ): Promise<{ readonly printed: string[]; readonly exit: ContainerExit; readonly outputs: unknown }> {
      const container = await docker.start({ ...containerSpec(image, { a: 1 }), args: [script], ...more });
      try {
        const { lines, exit } = await readToEnd(container);
        const outputs = parseOutputs(await container.readOutputs())?.outputs;
        return { printed: textsOf(lines, 'stdout'), exit, outputs };
      } finally {
        await container.remove();
      }
    }

    it('has no capability, gains none, and is its own user on the host', async () => {
      const { printed } = await execute(
        'grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status; cat /proc/self/uid_map',
      );
      const [bounding, effective, privileges, filter, map = ''] = printed
        .toSorted()
        .map((line) => line.trim());
      const found = printed.join('\n');
      assert.match(found, /^CapEff:\s+0+$/m, `${bounding} ${effective}`);
      assert.match(found, /^CapBnd:\s+0+$/m);
      assert.match(found, /^NoNewPrivs:\s+1$/m, privileges);
      assert.match(found, /^Seccomp:\s+2$/m, filter);
      assert.match(found, new RegExp(`^\\s*0\\s+${variant.root}\\s`, 'm'), map);
    });

    it('cannot change the kernel, or see what its engine and other containers have', async () => {
      const before = readFileSync('/proc/sys/vm/laptop_mode', 'utf8');
      const { printed } = await execute(
        'echo 7 2>/dev/null >/proc/sys/vm/laptop_mode && echo written; mount -t tmpfs none /tmp 2>/dev/null && echo mounted;' +
          ' ls /proc | grep -c "^[0-9]"; ls /var/run/docker.sock 2>/dev/null; true',
      );
      assert.equal(readFileSync('/proc/sys/vm/laptop_mode', 'utf8'), before);
      const [processes, ...others] = printed;
      assert.deepEqual(others, []);
      assert.ok(Number(processes) < 10, `${processes} processes`);
    });

    it('gets inputs and files, and gives back outputs, as its user', async () => {
      const files = [{ path: '/etc/own/secret', content: 'of the run', mode: 0o400, isSecret: true }];
      const script =
        'id -u; id -g; cat /etc/own/secret; echo; cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH"';
      for (const [user, ids] of [
        [null, ['0', '0']],
        ['4711:4712', ['4711', '4712']],
      ] as const) {
        const { printed, outputs } = await execute(script, { user, files });
        assert.deepEqual([printed, outputs], [[...ids, 'of the run'], { a: 1 }]);
      }
    });

    it('reads a volume, writes only where it may, and has an empty folder of its own', async () => {
      // An engine that maps users has mounts of its own here, and finds no folder that a worker has opened.
      const part = variant.root === 0 ? 'of/run' : '';
      const mounts = [
        { volume: 'data', path: '/data', read_only: true },
        { volume: 'out', path: '/out', ...(part !== '' && { sub_path: part }) },
        { scratch_mb: 8, path: '/scratch' },
      ];
      const script =
        'cat /data/set; echo x 2>/dev/null >/data/x && echo written; echo result >/out/a; echo y >/scratch/y && ls /scratch';
      const { printed } = await execute(script, { mounts, user: '4711' });
      assert.deepEqual(printed, ['content', 'y']);
      assert.equal(readFileSync(join(base, 'out', part, 'a'), 'utf8'), 'result\n');
      assert.equal(statSync(join(base, 'out', part, 'a')).uid, variant.root + 4711);
    });

    it('never writes into a part of a volume that it may only read', async () => {
      const mounts = [{ volume: 'out', path: '/out', read_only: true, sub_path: 'part' }];
      mkdirSync(join(base, 'out/part'), { mode: 0o777 });
      const refused = /^Error: This worker cannot mount a part \(sub_path\) of the volume 'out'/;
      await assert.rejects(execute('echo x >/out/x', { mounts }), refused);
      assert.deepEqual(readdirSync(join(base, 'out/part')), []);
    });

    it('is ended beyond its memory, and told so', async () => {
      const limits = { ...containerSpec(image).limits, ramMb: 16 };
      const { exit } = await execute('tail -c 64m /dev/zero | wc -c; exit 1', { limits });
      assert.equal(exit.exitCode !== 0, true);
      const { printed } = await execute(
        'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null',
        {
          limits,
        },
      );
      assert.deepEqual(printed, [String(16 * 2 ** 20)]);
    });

    it('is stopped by SIGTERM, or killed after its grace, which a later request may shorten', async () => {
      const obedient = await docker.start({
        ...containerSpec(image),
        args: ["trap 'exit 7' TERM; echo up; sleep 600 & wait $!"],
      });
      await obedient.lines[Symbol.asyncIterator]().next();
      await obedient.stop(60);
      assert.equal((await obedient.exit).exitCode, 7);
      await obedient.remove();
      const deaf = await docker.start({
        ...containerSpec(image),
        args: ["trap '' TERM; echo up; while :; do sleep 1; done"],
      });
      await deaf.lines[Symbol.asyncIterator]().next();
      const stopped = deaf.stop(3600);
      await deaf.stop(0);
      await stopped;
      assert.equal((await deaf.exit).exitCode, 137);
      await deaf.remove();
    });

    it('is of an engine whose versions are read', async () => {
      await docker.checkEngine('warn');
      const { containerEngine: found } = docker;
      assert.deepEqual([found?.name, found?.runtime], ['docker', variant.runtime]);
      assert.match(found?.version ?? '', /^[0-9]+\./);
      assert.match(found?.runtime_version ?? '', /^[0-9]+\./);
    });
  });
}
