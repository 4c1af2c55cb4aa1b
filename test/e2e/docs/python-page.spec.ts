import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { blocksOf, readPage, type CodeBlock } from '../../support/docs/doc-pages.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { Cli } from '../../support/programs/cli.js';
import { PROJECT, type TestProcess } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

const PAGE = 'docs/python.md';
const WRITTEN_URL = 'http://127.0.0.1:5555';
/** Printed between the blocks. */
const NEXT = '--- next block ---';

const whyNoPip =
  whyNoPython() || (spawnSync('python3', ['-m', 'pip', '--version']).status !== 0 && 'pip is not installed');

describe('the page about Python', skipFor(whyNoPython()), () => {
  let cli: Cli;
  let blocks: DocBlocks;
  const started: TestProcess[] = [];

  beforeAll(async () => {
    cli = await Cli.make({ SERVICE_PORT: '0', SERVICE_WORKER_TICK: '0.2', SERVICE_WORKER_MAX_RUNS: '2' });
    await symlink(join(PROJECT, 'packages'), join(cli.folder, 'packages'));
    blocks = await DocBlocks.read(PAGE);
  });
  afterAll(async () => {
    for (const program of started.toReversed()) {
      program.signal('SIGTERM');
      await program.exited;
    }
  });

  test('builds a wheel that needs nothing else', async () => {
    const { code, output } = await cli.shell(blocks.one('build'));
    assert.equal(code, 0, output);
    const wheel = 'packages/python/dist/longshore-0.1.0-py3-none-any.whl';
    assert.ok(blocks.one('install').includes(wheel));
    // Python imports from a wheel as from any zip file.
    const imported = await cli.shell(
      `PYTHONPATH=${wheel} python3 -S -c 'import longshore; print(longshore.__version__)'`,
    );
    assert.equal(imported.stdout, '0.1.0\n', imported.output);
  });

  test('installs the wheel and the source distribution without network', skipFor(whyNoPip), async () => {
    const pip = 'python3 -m pip install --no-index --target';
    const wheel = blocks.one('install').replace('python3 -m pip install', `${pip} wheel`);
    const { code, output } = await cli.shell(
      `${wheel}\n${pip} source packages/python/dist/longshore-0.1.0.tar.gz\ndiff -r -x __pycache__ wheel/longshore source/longshore`,
    );
    assert.equal(code, 0, output);
  });

  test('prints in its session what it shows', async () => {
    const service = await cli.startShell(
      blocks.one('service').replace('longshore serve', 'exec longshore serve'),
    );
    started.push(service);
    const [, url = ''] = await service.untilOutput(/listening on (http:\/\/[\d.:]+)/);
    const prepared = await cli.shell(blocks.one('prepare').replaceAll(WRITTEN_URL, url));
    assert.equal(prepared.code, 0, prepared.output);
    const worker = await cli.startShell(`exec ${blocks.one('worker')}`);
    started.push(worker);
    await worker.untilOutput(/registered at the service/);

    const cells = cellsOf(blocksOf(await readPage(PAGE)));
    assert.ok(cells.length > 5);
    const program = cells.map(({ code }) => code).join(`print(${JSON.stringify(NEXT)}, flush=True)\n`);
    const { code, stdout, output } = await cli.shell(
      `PYTHONPATH=packages/python exec python3 - <<'PROGRAM'\n${program}PROGRAM\n`,
    );
    assert.equal(code, 0, output);
    assert.deepEqual(
      stdout.split(`${NEXT}\n`),
      cells.map(({ prints }) => prints),
    );
  });
});

/** The Python blocks, each with the block `text` that follows: what it prints. */
function cellsOf(blocks: readonly CodeBlock[]): { readonly code: string; readonly prints: string }[] {
  return blocks.flatMap(({ language, code }, at) => {
    if (language !== 'python') return [];
    const next = blocks[at + 1];
    return [{ code, prints: next?.language === 'text' ? next.code : '' }];
  });
}
