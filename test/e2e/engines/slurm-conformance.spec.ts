import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { SCENARIOS } from '@longshore/conformance/scenarios/all';
import { writeProgramContainer } from '../../support/images/program-container.js';
import { launch, PROJECT } from '../../support/service-process.js';
import { skipWithoutSlurm, SlurmCluster } from '../../support/workers/slurm-cluster.js';
import { WORKER_MAIN } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const KIT = join(PROJECT, 'packages', 'conformance', 'dist', 'main.js');
const skip = skipWithoutSlurm();

describe('the conformance kit passes', skipFor(skip), () => {
  let cluster: SlurmCluster;

  beforeAll(async () => {
    cluster = await SlurmCluster.start();
    await mkdir(join(cluster.folder, 'shared'));
    writeProgramContainer(join(cluster.folder, 'container'));
  });
  afterAll(() => cluster?.stop());

  test('our own worker as a launcher for Slurm', async () => {
    const { folder } = cluster;
    // The kit tells the worker where the programs are; the container script finds them beside itself.
    const lines = [
      '#!/bin/sh',
      'container=$(dirname "$SERVICE_WORKER_IMAGES_DIR")/container',
      `cp '${join(folder, 'container')}' "$container.$$" && mv "$container.$$" "$container"`,
      'export SERVICE_WORKER_RUNTIME=slurm SERVICE_WORKER_SLURM_CONTAINER="$container"',
      `export SERVICE_WORKER_SLURM_DIR='${join(folder, 'shared')}' SERVICE_WORKER_SLURM_POLL=0.3`,
      `exec '${process.execPath}' '${WORKER_MAIN}'`,
    ];
    const command = join(folder, 'launcher');
    await writeFile(command, `${lines.join('\n')}\n`);
    await chmod(command, 0o755);
    const kit = await launch(KIT, { args: ['--command', command], env: cluster.env });
    const { code } = await kit.exited;
    assert.equal(code, 0, kit.output);
    for (const { name } of SCENARIOS) assert.match(kit.stdout, new RegExp(`^ok +${name} `, 'm'));
    assert.match(kit.stdout, /the worker conforms/);
    await cluster.untilNoJobs();
  });
});
