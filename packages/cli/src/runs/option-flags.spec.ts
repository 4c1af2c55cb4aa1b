import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { describe, test } from 'vitest';
import { CliError, EXIT } from '../cli-error.js';
import { given } from './new-run.js';
import { splitOperands } from './operands.js';
import {
  readRetries,
  readOptionFlags,
  addOptionFlags,
  type OptionFlags,
  type FlaggedOptions,
} from './option-flags.js';

/** What a command line says of a run. */
async function optionsOf(...argv: readonly string[]): Promise<FlaggedOptions & { retry_policy?: object }> {
  const command = addOptionFlags(new Command().argument('<image>')).exitOverride();
  command.configureOutput({ writeErr: () => undefined }).action(() => undefined);
  command.parse(argv, { from: 'user' });
  const flags = command.opts<OptionFlags>();
  const { unknown, args } = splitOperands(command.args.slice(1), argv);
  assert.deepEqual(unknown, []);
  const options = await readOptionFlags(flags, args, { env: { HOME_TOWN: 'Ulm' } });
  const { retry_policy: policy } = given<unknown>('retry_policy', readRetries(flags));
  return { ...options, ...(policy && { retry_policy: policy }) };
}

const isUsage = (error: unknown): boolean => error instanceof CliError && error.exitCode === EXIT.usage;

describe('the flags of a new run', () => {
  test('say nothing by default', async () => assert.deepEqual(await optionsOf('i'), {}));

  test('give every field that a run may have', async () => {
    const flags =
      '-e A=1 --env B=x=y --secret TOKEN=hub --secrets-from s3 --secrets-from DB_=db --image-pull-secret registry --command sh --command -e --arg -c ' +
      '--selector gpu,eu --selector large --concurrency-key db --concurrency-limit 3 --on-limit skip ' +
      '--start-at 2030-01-02T03:04:05.678Z --retry-on oom,exit:75 --retry-on image --grow-ram 1.5x:4096 --grow-on oom --grow-on exit:137,exit:1-2';
    assert.deepEqual(await optionsOf('i', ...flags.split(' '), '--', 'exit 1', '--env'), {
      env: { A: '1', B: 'x=y' },
      command: ['sh', '-e'],
      args: ['-c', 'exit 1', '--env'],
      secrets: { TOKEN: 'hub' },
      secrets_from: [{ secret: 's3' }, { secret: 'db', prefix: 'DB_' }],
      image_pull_secret: 'registry',
      selector: ['gpu', 'eu', 'large'],
      concurrency: { key: 'db', limit: 3, on_limit: 'skip' },
      start_at: '2030-01-02T03:04:05.678Z',
      retry_policy: {
        retry_on: ['oom', 'exit:75', 'image'],
        grow: { ram_mb: { factor: 1.5, max: 4096, on: ['oom', 'exit:137', 'exit:1-2'] } },
      },
    });
  });

  test('let the RAM grow by a factor to a maximum, with or without the x of the factor', async () => {
    for (const text of ['2x:16384', '2:16384', '2.0x:16384']) {
      assert.deepEqual(await optionsOf('i', '--grow-ram', text), {
        retry_policy: { grow: { ram_mb: { factor: 2, max: 16_384 } } },
      });
    }
    for (const wrong of ['2', '2x', ':5', 'x:5', '2x:5MB', '1e1:5', '-2:5', '2x:1.5', '.5:1'])
      await assert.rejects(optionsOf('i', '--grow-ram', wrong), { code: 'commander.invalidArgument' }, wrong);
    await assert.rejects(optionsOf('i', '--grow-on', 'oom'), isUsage);
  });

  test('limit a concurrency key to one run unless they say more', async () => {
    assert.deepEqual((await optionsOf('i', '--concurrency-key', 'k')).concurrency, { key: 'k', limit: 1 });
    await assert.rejects(optionsOf('i', '--concurrency-limit', '2'), isUsage);
    await assert.rejects(optionsOf('i', '--on-limit', 'skip'), isUsage);
  });

  test('pass a start on as it is given, so that the service counts a span and repeats are equal', async () => {
    for (const start of ['10m', '2030-06-01T09:00:00+02:00']) {
      assert.deepEqual(await optionsOf('i', '--start-at', start), { start_at: start });
    }
  });

  test('take no argument of the container that does not follow --', async () => {
    assert.deepEqual(splitOperands(['echo'], ['i', 'echo']), { unknown: ['echo'], args: [] });
    assert.deepEqual(await optionsOf('i', '--', '--', '-x'), { args: ['--', '-x'] });
  });

  test('read the content of files, in base64 unless it is text, which may be executed if the file may, and what else is said of them as JSON', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'longshore-files-'));
    try {
      const [script, text] = [join(folder, 'run=1.sh'), join(folder, 'a')];
      const [binary, nul] = [join(folder, 'b'), join(folder, 'c')];
      await writeFile(script, '#!/bin/sh\n', { mode: 0o755 });
      await writeFile(text, 'ü\n');
      await writeFile(binary, Buffer.from([0xff]));
      await writeFile(nul, 'a\0b');
      const key = { secret: 'gcp-key', env: 'KEY_FILE' };
      const flags = [
        `/etc/run.sh=@${script}`,
        `/etc/a=@${text}`,
        `/etc/b=@${text},mode=0555`,
        `/etc/c=@${script},mode=400`,
        `/k.p12=@${binary},mode=0400`,
        `/nul=@${nul}`,
        `/run/key=${JSON.stringify(key)}`,
      ];
      const { files } = await optionsOf('i', ...flags.flatMap((flag) => ['--file', flag]));
      assert.deepEqual(files, {
        '/etc/run.sh': { content: '#!/bin/sh\n', mode: '0555' },
        '/etc/a': { content: 'ü\n' },
        '/etc/b': { content: 'ü\n', mode: '0555' },
        '/etc/c': { content: '#!/bin/sh\n', mode: '400' },
        '/k.p12': { content_base64: '/w==', mode: '0400' },
        '/nul': { content_base64: 'YQBi' },
        '/run/key': key,
      });
      for (const wrong of ['/a', '/a=text', '/a=[1]', `/a=@${folder}/none`, `/a=@${text},mode=999`])
        await assert.rejects(optionsOf('i', '--file', wrong), isUsage, wrong);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test('read limits of the program as Docker spells them, but for a soft one of its own', async () => {
    const flags = ['--ulimit', 'nofile=65536', '--ulimit', 'memlock=-1'];
    assert.deepEqual(await optionsOf('i', ...flags), { ulimits: { nofile: 65_536, memlock: -1 } });
    for (const wrong of ['nofile', 'nofile=1:2', 'nofile=x', 'nofile=', 'memlock=unlimited'])
      await assert.rejects(optionsOf('i', '--ulimit', wrong), isUsage, wrong);
  });

  test('read mounts as fields with commas between them', async () => {
    const flags = [
      'volume=results,path=/out,sub_path=a/b=c',
      'volume=data,path=/data,ro',
      'scratch_mb=500,path=/s',
    ];
    const { mounts } = await optionsOf('i', ...flags.flatMap((flag) => ['--mount', flag]));
    assert.deepEqual(mounts, [
      { volume: 'results', path: '/out', sub_path: 'a/b=c' },
      { volume: 'data', path: '/data', read_only: true },
      { scratch_mb: 500, path: '/s' },
    ]);
    for (const wrong of ['results', 'volume=results,/out', 'volume=results,path=/out,rw'])
      await assert.rejects(optionsOf('i', '--mount', wrong), isUsage, wrong);
  });

  test('read variables from files, which --env overrides', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'longshore-env-'));
    try {
      const [first, second] = [join(folder, 'a.env'), join(folder, 'b.env')];
      await writeFile(first, '# comment\nA=1\nB="two words" # no\n\nHOME_TOWN\nC=3\n');
      await writeFile(second, 'C=4\n');
      const { env } = await optionsOf('i', '--env-file', first, '--env-file', second, '-e', 'A=0');
      assert.deepEqual(env, { A: '0', B: '"two words" # no', HOME_TOWN: 'Ulm', C: '4' });
      await assert.rejects(optionsOf('i', '--env-file', join(folder, 'none')), isUsage);
      await writeFile(second, 'C=4\nexport D=5\n');
      await assert.rejects(optionsOf('i', '--env-file', second), {
        name: 'SettingsError',
        message: `${second}, line 2: the name of the variable has white space`,
      });
      await writeFile(second, 'discovery.type=x\n2=5\nC=4\nSERVICE_RUN_ID=5\n');
      const form =
        /^[^\n]*, line 2: the name of the variable must have letters, [^\n]*\n[^\n]*, line 4: [^\n]*$/;
      await assert.rejects(optionsOf('i', '--env-file', second), { name: 'SettingsError', message: form });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
