import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { blocksOf, readPage } from '../../support/docs/doc-pages.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const page = await readPage('docs/from-other-systems.md');
const bodies = (kind: string) =>
  blocksOf(page)
    .filter((block) => block.language === 'json' && block.kind === kind)
    .map(({ code, line }): { line: number; body: JsonObject } => ({ line, body: JSON.parse(code) }));

describe('the jobs of docs/from-other-systems.md', () => {
  const service = useTestApp();

  test.for(bodies('run'))('a run is created with all that is said at line $line', async ({ body }) => {
    const { status, body: run, text } = await service.send('POST', '/runs', { body });
    assert.equal(status, 201, text);
    assertHas(run, body);
  });

  test.for(bodies('definition'))('a definition is stored as at line $line, and runs', async ({ body }) => {
    const stored = await service.send('POST', '/definitions', { body });
    assert.equal(stored.status, 201, stored.text);
    const specs = Object.entries(Object(body['input_specs']));
    const required = specs.filter(([, spec]) => Object(spec).required === true);
    const inputs = Object.fromEntries(required.map(([name]) => [name, 'x']));
    const created = await service.send('POST', `/definitions/${stored.body.id}/runs`, {
      body: { inputs },
    });
    assert.equal(created.status, 201, created.text);
    const { args } = created.body;
    assertHas(created.body, { constraints: body['constraints'] ?? {}, labels: body['labels'] ?? {} });
    assert.ok(args.includes('x') && !args.some((word: string) => word.includes('${')), JSON.stringify(args));
  });

  test('are one of each system that the page names', () => {
    const systems = [...page.text.matchAll(/^## (.+)$/gm)].map(([, name]) => name);
    // The words and what is not possible have no job.
    assert.equal(bodies('run').length + bodies('definition').length, systems.length - 2);
  });
});

/** The run has the fields as they were sent, objects with what the service adds. */
function assertHas(run: JsonObject, sent: JsonObject): void {
  for (const [name, value] of Object.entries(sent))
    assert.deepEqual(run[name], isJsonObject(value) ? { ...Object(run[name]), ...value } : value, name);
}
