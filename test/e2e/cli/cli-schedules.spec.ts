import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli, ended, type CliEnd } from '../../support/programs/cli.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';

const ADMIN = 'e2e-admin-key-of-the-tests';
const YEARLY = '0 0 1 1 *';

const DEFINITION = (image: string): string => `id: report\nversion: '1'\nimage: ${image}\n`;
const SCHEDULE = (more = ''): string =>
  `id: nightly\ncron: ['${YEARLY}']\nrun: {definition: report}\n${more}`;

describe('schedules on the command line', () => {
  let service: ServiceProcess;
  let send: Send;
  let cli: Cli;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: `admin:${ADMIN}` } });
    send = senderTo(service.url, ADMIN);
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN });
  });
  afterAll(async () => {
    assert.equal(await service.stop(), 0, service.output);
  });

  const file = async (name: string, text: string): Promise<void> => {
    await mkdir(join(cli.folder, name, '..'), { recursive: true });
    await writeFile(join(cli.folder, name), text);
  };
  const ok = async (...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.equal(end.code, 0, end.output);
    return end;
  };
  const ends = async (code: number, ...args: readonly string[]): Promise<CliEnd> => {
    const end = await cli.run(...args);
    assert.equal(end.code, code, end.output);
    return end;
  };

  /** A folder with a definition and a schedule of it, which the service does not have. */
  const fresh = async (): Promise<void> => {
    for (const path of ['/schedules/nightly', '/schedules/weekly', '/definitions/report?all=true'])
      await send('DELETE', path);
    await rm(join(cli.folder, 'jobs'), { recursive: true, force: true });
    await file('jobs/a.yaml', SCHEDULE());
    await file('jobs/deep/b.yml', DEFINITION('one'));
  };

  describe('schedule', () => {
    test('set stores what flags and a file say, and a file with a mistake changes nothing', async () => {
      const flags = ['--timezone', 'Europe/Berlin', '--image', 'i', '--input', 'n=1', '--overlap', 'allow'];
      const { stdout } = await ok('schedule', 'set', 'by-flags', '--cron', YEARLY, ...flags);
      assert.match(stdout, /^by-flags created, next at \d{4}-01-01T00:00:00\+01:00\n$/);
      const { body } = await send('GET', '/schedules/by-flags');
      assert.deepEqual(
        [body.cron, body.run, body.overlap],
        [[YEARLY], { image: 'i', inputs: { n: 1 } }, 'allow'],
      );
      await file(
        'two.yaml',
        `id: a\nevery_s: 3600\nrun: {image: i}\n---\nid: b\ncron: ['${YEARLY}']\nrun: {image: i}\n`,
      );
      const trial = await ok('schedule', 'set', '-f', 'two.yaml', '--dry-run');
      assert.match(trial.stdout, /^a can be stored, next at \S+\nb can be stored, next at \S+\n$/);
      assert.equal((await send('GET', '/schedules/a')).status, 404);
      await ok('schedule', 'set', '-f', 'two.yaml');
      assert.equal((await send('GET', '/schedules/b')).body.cron[0], YEARLY);
      await file(
        'bad.yaml',
        'id: c\nevery_s: 3600\nrun: {image: i}\n---\nid: d\nevery_s: 3\nrun: {image: i}\n',
      );
      const { stderr } = await ends(1, 'schedule', 'set', '-f', 'bad.yaml');
      assert.match(stderr, /^bad\.yaml:6: every_s must be/);
      assert.equal((await send('GET', '/schedules/c')).status, 404);
    });

    test('list shows the times, the zone, the next time or the pause, and a symbol for each of the last times', async () => {
      await ok('schedule', 'set', 'listed', '--cron', YEARLY, '--image', 'i', '--timezone', 'Asia/Tokyo');
      const first = (await ok('schedule', 'trigger', 'listed')).stdout.trim();
      const { stderr } = await ends(1, 'schedule', 'trigger', 'listed');
      assert.match(stderr, /skipped_overlap: /);
      await ok('run', 'cancel', first);
      await ok('schedule', 'trigger', 'listed');
      const lineOf = async (): Promise<string> =>
        (await ok('schedule', 'list')).stdout.split('\n').find((line) => line.startsWith('listed ')) ?? '';
      assert.match(await lineOf(), /^listed +0 0 1 1 \* +Asia\/Tokyo +\d{4}-01-01T00:00:00\+09:00 +csp$/);
      assert.equal((await ok('schedule', 'pause', 'listed', '--note', 'a move')).stdout, 'listed paused\n');
      assert.match(await lineOf(), / paused: a move +csp$/);
      const { stdout } = await ok('schedule', 'get', 'listed');
      assert.match(stdout, /^counts +created 2, skipped_overlap 1, /m);
      assert.match(stdout, new RegExp(`^\\S+ +trigger +created +${first} +CANCELLED `, 'm'));
      assert.match(
        (await ok('schedule', 'resume', 'listed')).stdout,
        /^listed resumed, next at \d{4}-01-01T/,
      );
      const fires = await ok('schedule', 'fires', 'listed', '-n', '2', '--json');
      assert.equal(fires.stdout.trim().split('\n').length, 2);
    });

    test('trigger --wait follows the run, and its exit code says how the run ended', async () => {
      await ok('schedule', 'set', 'waited', '--cron', YEARLY, '--image', 'i');
      const waiting = await cli.start('schedule', 'trigger', 'waited', '--wait', '--no-logs');
      const [, id = ''] = await waiting.untilOutput(/^run (\S{36})$/m);
      await send('POST', `/runs/${id}/cancel`, {});
      assert.equal((await ended(waiting)).code, 1, waiting.output);
    });

    test('preview says which hours are skipped and repeated when the clock is changed', async () => {
      const zone = ['--timezone', 'Europe/Berlin', '-n', '2'];
      const spring = await ok('schedule', 'preview', '30 2 * * *', ...zone, '--from', '2026-03-28T12:00:00Z');
      assert.equal(spring.stdout, '2026-03-29T03:30:00+02:00  skipped hour\n2026-03-30T02:30:00+02:00\n');
      const autumn = await ok('schedule', 'preview', '30 2 * * *', ...zone, '--from', '2026-10-24T12:00:00Z');
      assert.match(autumn.stdout, /^2026-10-25T02:30:00\+02:00 {2}repeated hour\n/);
      await ends(2, 'schedule', 'preview');
    });

    test('backfill makes the runs of a span before now once, and delete removes the schedule', async () => {
      await ok('schedule', 'set', 'filled', '--every', '86400', '--image', 'i');
      const { stdout } = await ok('schedule', 'backfill', 'filled', '--from', '3d');
      assert.match(stdout, /^3 runs created of 3 times, 0 had one, 0 failed\n$/);
      const again = await ok('schedule', 'backfill', 'filled', '--from', '70h');
      assert.match(again.stdout, /^0 runs created of [23] times, [23] had one, /);
      assert.equal((await ok('schedule', 'delete', 'filled')).stdout, 'filled deleted\n');
      assert.equal((await send('GET', '/schedules/filled')).status, 404);
      assert.match((await ends(1, 'schedule', 'get', 'filles')).stderr, /not found/);
    });
  });

  describe('apply', () => {
    const apply = ['apply', '-f', 'jobs', '--set', 'prod'] as const;

    test('stores definitions before the schedules that need them, and then finds nothing to do', async () => {
      await fresh();
      const trial = await ends(2, ...apply, '--dry-run');
      assert.match(
        trial.stdout,
        /^create +definition report\/1\ncreate +schedule nightly .*\n2 to create, 0 to change/,
      );
      assert.equal((await send('GET', '/definitions/report')).status, 404);
      const { stdout } = await ok(...apply);
      assert.match(stdout, /\ndefinition report\/1 created\nschedule nightly created\n$/);
      assert.equal((await send('GET', '/schedules/nightly')).body.applied.set, 'prod');
      const again = await ok(...apply, '--dry-run');
      assert.match(again.stdout, /\n0 to create, 0 to change, 0 to prune, 2 unchanged\n$/);
    });

    test('changes the fields that a file says differently, and resets what it leaves out', async () => {
      await fresh();
      await file('jobs/a.yaml', SCHEDULE('jitter_s: 9\n'));
      await ok(...apply);
      await file('jobs/a.yaml', SCHEDULE('overlap: allow\n'));
      const { stdout } = await ends(2, ...apply, '--dry-run');
      assert.match(stdout, /^change +schedule nightly\n/m);
      assert.match(stdout, /^ {4}overlap: "skip" -> "allow"\n/m);
      assert.match(stdout, /^ {4}jitter_s: 9 -> 0\n/m);
      await ok(...apply);
      const { body } = await send('GET', '/schedules/nightly');
      assert.deepEqual([body.overlap, body.jitter_s], ['allow', 0]);
    });

    test('keeps what was changed by hand and no file says, and refuses to change the rest without --overwrite', async () => {
      await fresh();
      await ok(...apply);
      await ok(
        'schedule',
        'set',
        'nightly',
        '--cron',
        '@weekly',
        '--definition',
        'report',
        '--overlap',
        'allow',
      );
      await ok('schedule', 'pause', 'nightly');
      await file('jobs/deep/b.yml', DEFINITION('two'));
      const { stdout, stderr } = await ends(1, ...apply);
      assert.match(
        stdout,
        /^change +schedule nightly {2}\(CONFLICT: changed since it was applied: cron\)\n/m,
      );
      assert.match(stderr, /1 conflicts, nothing was changed/);
      assert.equal((await send('GET', '/definitions/report')).body.image, 'one');
      await ok(...apply, '--overwrite');
      const { body } = await send('GET', '/schedules/nightly');
      assert.deepEqual([body.cron, body.overlap, body.paused], [[YEARLY], 'allow', true]);
      assert.equal((await send('GET', '/definitions/report')).body.image, 'two');
    });

    test('--prune deletes what the set has stored and has in no file, schedules first, and nothing of others', async () => {
      await fresh();
      await ok(...apply);
      await file('other/c.yaml', `id: weekly\ncron: ['@weekly']\nrun: {image: i}\n`);
      await ok('apply', '-f', 'other', '--set', 'other');
      const foreign = await ends(1, 'apply', '-f', 'other', '--set', 'prod');
      assert.match(foreign.stdout, /CONFLICT: of the set other/);
      await file('jobs/a.yaml', '{kind: set, name: prod}\n');
      await rm(join(cli.folder, 'jobs/deep'), { recursive: true });
      const kept = await ok('apply', '-f', 'jobs');
      assert.match(
        kept.stderr,
        /--prune would delete what is in no file: definition report\/1, schedule nightly/,
      );
      const { stdout } = await ok('apply', '-f', 'jobs', '--prune');
      assert.match(stdout, /\nschedule nightly deleted\ndefinition report\/1 deleted\n$/);
      assert.equal((await send('GET', '/schedules/nightly')).status, 404);
      assert.equal((await send('GET', '/schedules/weekly')).status, 200);
    });

    test('names file and entry of what is wrong, before anything is changed', async () => {
      await fresh();
      for (const [text, code, said] of [
        [
          'id: x\nname: y\n',
          2,
          /jobs\/z\.yaml:1: it is neither a definition \(image and version\) nor a schedule/,
        ],
        [SCHEDULE(), 2, /jobs\/z\.yaml:1: schedule nightly is in jobs\/a\.yaml:1 already/],
        ['id: x\nevery_s: 3\nrun: {image: i}\n', 1, /jobs\/z\.yaml:2: every_s must be/],
        ['kind: job\nid: x\n', 2, /jobs\/z\.yaml:1: kind must be one of definition, schedule, set/],
        ['cron: ["@daily"]\nrun: {image: i}\n', 2, /jobs\/z\.yaml:1: id must be a text/],
      ] as const) {
        await file('jobs/z.yaml', text);
        const { stderr } = await ends(code, ...apply);
        assert.match(stderr, said);
        assert.equal((await send('GET', '/definitions/report')).status, 404);
      }
    });

    test('a failure in the middle says how far it came, and the same command goes on', async () => {
      await fresh();
      // Its definition is stored, but has an input that the schedule does not give.
      await file(
        'jobs/deep/b.yml',
        `${DEFINITION('one')}input_specs: {n: {type: integer, required: true}}\n`,
      );
      const { stderr } = await ends(1, ...apply);
      assert.match(stderr, /schedule nightly: .*; 1 of 2 done, the same command goes on/);
      await file('jobs/a.yaml', SCHEDULE().replace('report}', 'report, inputs: {n: 1}}'));
      assert.match((await ok(...apply)).stdout, /\nschedule nightly created\n$/);
    });
  });
});
