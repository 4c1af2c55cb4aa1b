import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { describe, test } from 'vitest';
import { CliError } from '../../../packages/cli/src/cli-error.js';
import { makeProgram } from '../../../packages/cli/src/program.js';
import { Output } from '../../../packages/cli/src/terminal/output.js';
import { until } from '../../support/app/passing-time.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

const CHAIN = `
name: chain
inputs: {day: 1}
runs:
  - {ref: first, image: i}
  - {ref: second, image: i, depends_on: [{ref: first}], inputs: {rows: {$from: {ref: first, output: /rows}}}}
`;

describe('groups on the command line', () => {
  const service = useTestApp();
  const steps = new GroupSteps(service);

  /** Runs a command line. @returns its exit code and what it printed */
  const typed = async (argv: readonly string[], stdin = '') => {
    const [out, err] = [new PassThrough(), new PassThrough()];
    let code = 0;
    const program = makeProgram({
      env: { SERVICE_URL: service.url, SERVICE_API_KEY: KEYS.admin },
      stdin: Readable.from([stdin]),
      output: new Output(out, err, {}),
      argv,
      stop: () => new AbortController().signal,
      end: (given) => (code = given),
    });
    await program.parseAsync(argv, { from: 'user' }).catch((error: unknown) => {
      assert.ok(error instanceof CliError);
      code = error.exitCode;
    });
    return { code, printed: String(out.read() ?? ''), notes: String(err.read() ?? '') };
  };
  /** What a command prints. */
  const printed = async (...argv: readonly string[]): Promise<string> => (await typed(argv)).printed;
  test('are created from a file, watched to a failure, retried, and watched to their end', async () => {
    const group = (await typed(['group', 'create', '-f', '-', '-i', 'day=2'], CHAIN)).printed.trim();
    const listed = async (): Promise<string> =>
      printed('run', 'list', '--group', group, '--columns', 'group.ref,state,reason,cause');
    assert.match(await listed(), /^second +PENDING +dependency +-\nfirst +PENDING /m);
    const members = await steps.members(group);
    const [first, second] = [members.get('first').id, members.get('second').id];
    assert.match(await printed('run', 'explain', second), /^waits for +run \S{36} \(PENDING\)$/m);
    assert.ok((await printed('run', 'get', second)).includes(`${group} as second`));

    await steps.end(first, 'FAILED');
    const failed = await typed(['group', 'watch', group]);
    assert.equal(failed.code, 1);
    assert.match(failed.notes, /^group \S+ is failed: 1 failed, 1 cancelled; failed: first$/m);
    assert.match(await listed(), /^second +CANCELLED +- +dependency$/m);

    assert.equal(await printed('group', 'retry', group), `${group} open\n`);
    await steps.end(first, 'COMPLETED', { rows: 9 });
    await steps.untilReady(second);
    await steps.end(second);
    assert.equal((await typed(['group', 'watch', group])).code, 0);
    assert.match(await printed('group', 'get', group), /^counts +2 completed$/m);
    assert.match(
      await printed('group', 'list', '--name', 'chain'),
      new RegExp(`^${group} +completed +100 %`, 'm'),
    );
    assert.deepEqual((await steps.runs.get(second)).inputs, { day: 2, rows: 9 });
  });

  test('are cancelled with a reason, and show what a file has wrong at its line', async () => {
    const array = 'array: {size: 3, run: {image: i}}\n';
    const group = (await typed(['group', 'create', '-f', '-'], array)).printed.trim();
    const members = () => service.send('GET', `/runs?group=${group}`);
    const { body } = await until(members, (answer) => answer.body.data.length === 3);
    const [run] = body.data;
    assert.equal(await printed('group', 'cancel', group, '--reason', 'enough'), `${group} cancelled\n`);
    assert.match(await printed('run', 'get', run.id), /^cancelled because +enough$/m);
    const { body: before } = await service.send('GET', '/groups');
    const { code, notes } = await typed(
      ['group', 'create', '-f', '-'],
      'array:\n  size: 0\n  run: {image: i}\n',
    );
    assert.equal(code, 1);
    assert.match(notes, /^standard input:2: array\.size must be/);
    assert.deepEqual((await service.send('GET', '/groups')).body, before);
  });

  test('runs wait for a run by its name, and are opened again with the run that had cancelled them', async () => {
    const { id: parent } = await steps.runs.create({ name: 'parent' });
    const child = (await typed(['run', 'create', 'image', '--after', 'parent'])).printed.trim();
    await steps.end(parent, 'FAILED');
    await steps.untilRun(child, ({ state }) => state === 'CANCELLED');
    await typed(['run', 'retry', 'parent', '--dependents']);
    await steps.end(parent);
    await steps.untilRun(child, ({ state }) => state === 'PENDING');
  });
});
