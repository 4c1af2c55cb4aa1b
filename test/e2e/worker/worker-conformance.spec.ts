import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import { SCENARIOS } from '@longshore/conformance/scenarios/all';
import { launch, makeDataDir, PROJECT } from '../../support/service-process.js';

import {
  EXAMPLE_WORKER,
  OLDER_WORKER,
  SMALLEST_WORKER,
  whyNoPython,
  writeWorker,
} from '../../support/workers/example-worker.js';
import { WORKER_MAIN } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const KIT = join(PROJECT, 'packages', 'conformance', 'dist', 'main.js');

/** Runs the kit as its users do. */
async function checkWorker(command: string, names = SCENARIOS.map(({ name }) => name)): Promise<void> {
  const kit = await launch(KIT, { args: ['--command', command, '--only', names.join()] });
  const { code } = await kit.exited;
  assert.equal(code, 0, kit.output);
  for (const name of names) assert.match(kit.stdout, new RegExp(`^ok +${name} `, 'm'));
  assert.match(kit.stdout, /the worker conforms/);
}

describe('the conformance kit passes', { timeout: 3_600_000, concurrent: true }, () => {
  test('our own worker', () => checkWorker(`'${process.execPath}' '${WORKER_MAIN}'`));

  test('the example worker in Python', skipFor(whyNoPython()), () =>
    checkWorker(`python3 '${EXAMPLE_WORKER}'`),
  );

  test('the smallest worker', skipFor(whyNoPython()), () => checkWorker(`python3 '${SMALLEST_WORKER}'`));

  test(
    'a worker of the version before, which knows none of the extensions and takes no run that has one',
    skipFor(whyNoPython()),
    async () => {
      // Two runs of one claim would need `max`, and variables of schedules and arrays need to be known.
      const extended = new Set(['several-runs', 'variables']);
      const names = SCENARIOS.flatMap(({ name }) => (extended.has(name) ? [] : [name]));
      await checkWorker(await writeWorker(OLDER_WORKER, await makeDataDir()), names);
    },
  );
});

describe('the command of the conformance kit', () => {
  test('exits with 2 and its usage when it is told nothing, or the unknown', async () => {
    for (const args of [[], ['--command', 'true', '--only', 'nothing'], ['--nope']]) {
      const kit = await launch(KIT, { args });
      assert.deepEqual(await kit.exited, { code: 2, signal: null });
      assert.match(kit.stderr, /^Usage: npm run worker:conformance/m);
    }
  });

  test('exits with 1 and names the rule when the worker fails', async () => {
    const kit = await launch(KIT, {
      args: ['--command', 'sh -c "echo no worker at all"', '--only', 'completes'],
    });
    assert.deepEqual(await kit.exited, { code: 1, signal: null });
    assert.match(kit.stdout, /^FAIL +completes .*\n +the worker ended by itself\n/m);
    assert.match(kit.stdout, /\| no worker at all/);
    assert.match(kit.stdout, /0 of 1 passed .*: it does not conform: completes/);
  });

  test('lists the scenarios', async () => {
    const kit = await launch(KIT, { args: ['--list'] });
    await kit.exited;
    const listed = kit.stdout.split('\n').map((line) => line.replace(/ +/, ' '));
    for (const { name, promise } of SCENARIOS) assert.ok(listed.includes(`${name} ${promise}`), name);
  });
});
