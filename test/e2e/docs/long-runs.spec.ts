import assert from 'node:assert/strict';
import { afterAll, describe, test } from 'vitest';
import { PageShell } from '../../support/browser/page-shell.js';
import { blocksOf, readPage, type CodeBlock } from '../../support/docs/doc-pages.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { skipFor } from '../../support/skip.js';

const found = await startTestEngine();

describe('whoever follows docs/long-runs.md beside a container engine', skipFor(found.skip), () => {
  const shells: PageShell[] = [];
  afterAll(async () => {
    for (const shell of shells) await shell.close();
  });

  test('upgrades a worker in the middle of a run, and loses a machine without losing its work', async () => {
    // The image that it starts from comes from the network, and another way here.
    await found.engine.buildScript('base', 'true');
    const shell = await PageShell.make({ DOCKER_HOST: found.engine.host });
    shells.push(shell);
    const printed = new Map<string, string>();
    const blocks = blocksOf(await readPage('docs/long-runs.md')).filter(isRunHere);
    for (const block of blocks) printed.set(block.kind, await shell.run(block));
    assert.match(printed.get('stop-worker') ?? '', /w-1 +away until 20/);
    assert.match(printed.get('stop-worker') ?? '', /Running on worker 'w-1', which is away until 20/);
    assert.match(printed.get('next-worker') ?? '', /"attempts":1/);
    const [, step = '0'] = /attempt 2 begins at step (\d+)/.exec(printed.get('again') ?? '') ?? [];
    assert.ok(Number(step) > 0, printed.get('again'));
  });
});

function isRunHere({ language, kind }: CodeBlock): boolean {
  return language === 'sh' && kind !== 'elsewhere';
}
