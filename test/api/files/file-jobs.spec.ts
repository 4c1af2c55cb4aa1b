import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { typeCommand, type Typed } from '../../support/programs/type-command.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('local files that files of jobs name', () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-jobs-'));
    await mkdir(join(folder, 'jobs/src'), { recursive: true });
    await writeFile(join(folder, 'jobs/src/main.py'), 'print(1)');
    await writeFile(join(folder, 'x.csv'), 'a,b\n');
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const typed: Typed = (...argv) =>
    typeCommand({ SERVICE_URL: service.url, SERVICE_API_KEY: KEYS.admin, HOME: folder }, argv);
  const ok = async (...argv: readonly string[]): Promise<string> => {
    const { code, printed, error, notes } = await typed(...argv);
    assert.equal(code, 0, error + notes);
    return printed;
  };
  const read = async (path: string): Promise<any> => (await service.send('GET', path)).body;
  const countFiles = async (): Promise<number> =>
    (await service.dataSource.query('select count(*)::int as n from files'))[0].n;
  const write = async (name: string, value: unknown): Promise<string> => {
    const path = join(folder, 'jobs', name);
    await writeFile(path, typeof value === 'string' ? value : JSON.stringify(value));
    return path;
  };

  const IN = { '/app': '@./src', '/x.csv': '@../x.csv' };
  /** Whether these sources are of the folder and of the file, and what the files are. */
  const areSent = async ({ in: sources }: any): Promise<void> => {
    const [app, csv] = [sources['/app'], sources['/x.csv']];
    assert.deepEqual([app.unpack, csv.unpack], [true, undefined]);
    const sent = [await files.get(app.file), await files.get(csv.file)];
    assert.deepEqual(
      sent.map(({ name, state }) => [name, state]),
      [
        ['src.tar.gz', 'stored'],
        ['x.csv', 'stored'],
      ],
    );
  };

  test('are sent with runs, definitions, schedules and groups, from where the file is that names them', async () => {
    const run = { image: 'i', inputs: { artifacts: { in: IN } }, artifacts: { in: IN } };
    const id = await ok('run', 'create', '-f', await write('run.json', run));
    const made = await read(`/runs/${id}`);
    await areSent(made.artifacts);
    assert.deepEqual(made.inputs, run.inputs, 'what is no source stays as it is');
    const before = await countFiles();

    const definition = { id: 'd', version: '1', image: 'i', artifacts: { in: IN } };
    await ok('def', 'apply', '-f', await write('d.json', [definition, { ...definition, version: '2' }]));
    await areSent((await read('/definitions/d?version=2')).artifacts);

    const schedule = { id: 's', every_s: 3600, run: { image: 'i', artifacts: { in: IN } } };
    await ok('schedule', 'set', '-f', await write('s.json', schedule));
    await areSent((await read('/schedules/s')).run.artifacts);

    const numbers = '{"a": 1.10, "b": 12345678901234567890}';
    const member = `"image": "i", "inputs": ${numbers}, "artifacts": {"in": ${JSON.stringify(IN)}}`;
    const group = `{"runs": [{"ref": "a", ${member}}, {"ref": "b", ${member}}]}`;
    const { id: ofGroup } = JSON.parse(
      await ok('group', 'create', '-f', await write('g.json', group), '--json'),
    );
    const answer = await service.send('GET', `/runs?group=${ofGroup}`);
    for (const one of answer.body.data) await areSent(one.artifacts);
    assert.match(answer.text, /"inputs":\{"a":1\.10,"b":12345678901234567890\}/);

    const array = { array: { size: 2, run: { image: 'i', artifacts: { in: IN } } } };
    await ok('schedule', 'set', 't', '-f', await write('t.json', { every_s: 60, group: array }));
    await areSent((await read('/schedules/t')).group.array.run.artifacts);
    assert.equal(await countFiles(), before, 'what the service has is not sent again');
  });

  test('stand beside what flags give, which replace them path by path', async () => {
    const { id } = await files.stored('c');
    const schedule = {
      id: 'flags',
      every_s: 3600,
      run: { image: 'i', artifacts: { in: { '/a': '@none', '/app': '@src' } } },
    };
    const flags = ['--in', `/a=${id}`, '--in', `/c=@${folder}/x.csv`, '--out', 'm=/m', '--image', 'j'];
    await ok('schedule', 'set', '-f', await write('flags.json', schedule), ...flags);
    const { run } = await read('/schedules/flags');
    assert.deepEqual([run.image, Object.keys(run.artifacts.in).toSorted()], ['j', ['/a', '/app', '/c']]);
    assert.deepEqual([run.artifacts.in['/a'], run.artifacts.out], [{ file: id }, { m: { path: '/m' } }]);
    await ok('schedule', 'set', 'plain', '--every', '60', '--image', 'i', '--in', `/x.csv=@${folder}/x.csv`);
    const { file } = (await read('/schedules/plain')).run.artifacts.in['/x.csv'];
    assert.equal((await files.get(file)).name, 'x.csv');
  });

  test('are not sent by a dry run, nor when one of them must not be or the service refuses another job', async () => {
    await writeFile(join(folder, 'jobs/new.csv'), String(Math.random()));
    const before = await countFiles();
    const artifacts = { in: { '/new': '@new.csv' } };
    const definition = { id: 'n', version: '1', image: 'i', artifacts };
    for (const [command, body] of [
      [['run', 'create'], { image: 'i', artifacts }],
      [['def', 'apply'], definition],
      [['schedule', 'set'], { id: 'n', every_s: 60, run: { image: 'i', artifacts } }],
      [['group', 'create'], { runs: [{ ref: 'a', image: 'i', artifacts }] }],
    ] as const) {
      const { code, notes, error } = await typed(...command, '-f', await write('n.json', body), '--dry-run');
      assert.equal(code, 0, error);
      assert.match(notes, /not sent, and left out: .*jobs\/new\.csv as \/new\n/, command.join(' '));
    }
    const bad = await typed(
      'def',
      'apply',
      '-f',
      await write('bad.json', [definition, { ...definition, version: 2 }]),
    );
    assert.equal(bad.code, 1);
    await symlink('/etc/passwd', join(folder, 'jobs/link'));
    await mkdir(join(folder, 'jobs/linked'));
    await symlink('/etc/passwd', join(folder, 'jobs/linked/l'));
    for (const source of ['@linked', '@none', '@']) {
      const two = { ...definition, artifacts: { in: { '/new': '@new.csv', '/b': source } } };
      assert.equal((await typed('def', 'apply', '-f', await write('two.json', two))).code, 2, source);
    }
    assert.equal(await countFiles(), before);
  });

  test('change what apply has stored only when their content does, whoever applies, and are sent after the plan', async () => {
    const set = ['apply', '-f', join(folder, 'set'), '--set', 'prod'] as const;
    await mkdir(join(folder, 'set/code'), { recursive: true });
    const main = join(folder, 'set/code/main.py');
    await writeFile(main, 'print(2)');
    const artifacts = { in: { '/app': '@./code' } };
    const definition = { id: 'applied', version: '1', image: 'i', artifacts };
    const schedule = { id: 'applied', every_s: 60, group: { runs: [{ ref: 'a', image: 'i', artifacts }] } };
    await writeFile(join(folder, 'set/all.json'), JSON.stringify([definition, schedule]));
    const before = await countFiles();
    const plan = await typed(...set, '--dry-run');
    assert.deepEqual([plan.code, await countFiles()], [2, before], plan.error);
    await ok(...set);
    const { in: sources } = (await read('/definitions/applied')).artifacts;
    assert.equal((await files.get(sources['/app'].file)).state, 'stored');
    assert.deepEqual((await read('/schedules/applied')).group.runs[0].artifacts.in, sources);

    await utimes(main, 1, 1);
    // Another key has other files of the same content.
    const other = { SERVICE_URL: service.url, SERVICE_API_KEY: KEYS.client, HOME: folder };
    const same = await typeCommand(other, [...set, '--dry-run']);
    assert.equal(same.code, 0, same.printed);
    assert.match(same.printed, /0 to create, 0 to change, 0 to prune, 2 unchanged/);

    await writeFile(main, 'print(3)');
    const changed = await typed(...set, '--dry-run');
    assert.equal(changed.code, 2);
    assert.match(
      changed.printed,
      /^ {4}artifacts: \{"in":\{"\/app":\{"file":"[^"]+","unpack":true\}\}.*\} -> \{"in":\{"\/app":"@\.\/code"\}\}$/m,
    );
    assert.equal(await countFiles(), before + 1);
    await ok(...set);
    assert.equal(await countFiles(), before + 2);
    const { '/app': now } = (await read('/definitions/applied')).artifacts.in;
    assert.notEqual(now.file, sources['/app'].file);
    assert.match(await ok(...set), /2 unchanged/);
    await writeFile(join(folder, 'set/all.json'), JSON.stringify([schedule]));
    assert.match(await ok(...set, '--prune'), /definition applied\/1 deleted/);
  });
});
