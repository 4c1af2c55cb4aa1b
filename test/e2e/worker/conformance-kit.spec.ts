import assert from 'node:assert/strict';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { ConformanceKit } from '@longshore/conformance/kit';
import { SCENARIOS } from '@longshore/conformance/scenarios/all';
import { makeDataDir } from '../../support/service-process.js';
import { whyNoPython, writeWorker } from '../../support/workers/example-worker.js';
import { MUTANTS, type Mutant } from '../../support/workers/worker-mutants.js';
import { skipFor } from '../../support/skip.js';

/** Most of a scenario is waiting: so many kits go on side by side, each with its share of the mutants. */
const KITS = 2;

describe('the conformance kit', { ...skipFor(whyNoPython()), concurrent: true }, () => {
  for (let number = 0; number < KITS; number++) {
    describe(`number ${number + 1}`, { concurrent: false }, () => {
      findsOut(MUTANTS.filter((_, index) => index % KITS === number));
    });
  }
});

function findsOut(mutants: readonly Mutant[]): void {
  let kit: ConformanceKit;
  let folder: string;

  beforeAll(async () => {
    folder = await makeDataDir();
    kit = await ConformanceKit.start(process.env);
  });
  afterAll(() => kit.close());

  for (const [number, mutant] of mutants.entries()) {
    const { mistake, scenario: name, says, change } = mutant;
    test(`finds out by ${name} that ${mistake}`, async () => {
      const command = await writeWorker([change], join(folder, String(number)));
      const scenario = SCENARIOS.find((candidate) => candidate.name === name) ?? assert.fail(name);
      const { problem, printed } = await kit.run(scenario, command);
      assert.match(problem ?? 'it passed', says, printed);
    });
  }
}
