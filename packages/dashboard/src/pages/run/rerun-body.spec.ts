import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import type { Schemas } from '@longshore/client';
import { RUN_OPTIONS, type RunOption } from '@longshore/client/constants';
import { copyOfDefinitionRun, copyOfRun, editableFields } from './rerun-body.js';

interface ObjectSchema {
  readonly properties: Readonly<Record<string, { readonly anyOf?: readonly { readonly $ref?: string }[] }>>;
}

const DOCUMENT: { components: { schemas: Record<string, ObjectSchema> } } = JSON.parse(
  readFileSync(join(import.meta.dirname, '../../../../../openapi.json'), 'utf8'),
);

const VALUES = {
  map: { MODE: 'fast' },
  list: ['sh'],
  'object-list': [{ secret: 'map', prefix: 'P_' }],
  'object-map': { '/etc/a': { content: 'a', mode: '0400' }, '/k.p12': { content_base64: '/w==' } },
  'record-list': [{ volume: 'v', path: '/v' }],
  text: 'registry',
  integer: 3,
  integers: { nofile: 1024 },
};
const OPTIONS: Pick<Schemas['OpRun'], RunOption['name']> = Object(
  Object.fromEntries(RUN_OPTIONS.map(({ name, kind }) => [name, VALUES[kind]])),
);

/** A run in which no field has its default. */
const RUN: Schemas['OpRun'] = {
  id: '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b',
  name: null,
  labels: { team: 'blue' },
  state: 'FAILED',
  progress: 40,
  current_attempt: 2,
  image: 'examples/train',
  inputs: { text: 'a' },
  outputs: { upload: 'https://example.com' },
  priority: 7,
  constraints: {
    cpu: 2,
    cpu_millis: 1500,
    cpu_limit_millis: 3000,
    ram_mb: 512,
    vram_mb: 256,
    gpus: 1,
    gpu_selector: ['a100'],
    shm_mb: 64,
    gpu_id: 1,
  },
  retry_policy: {
    max_attempts: 3,
    backoff_s: 5,
    max_backoff_s: 60,
    retry_on: ['oom'],
    grow: { ram_mb: { factor: 2, max: 4096, on: ['oom'] } },
  },
  timeouts: { start_within_s: 60, attempt_s: 90 },
  event_delivery: { topic: 'training', attributes: { team: 'blue' } },
  events: [],
  execution_summary: {},
  op_definition: 'train',
  op_definition_version: '1',
  created_by: null,
  source: null,
  rerun_of: null,
  ...OPTIONS,
  selector: ['gpu'],
  concurrency: { key: 'disk', limit: 2 },
  start_at: '2026-01-02T00:00:00.000Z',
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
};

/** Asserts that the copy has every field that the schema names, with the value of the run. */
function assertCopied(schema: string, copy: object, original: object): void {
  const [values, expected] = [new Map(Object.entries(copy)), new Map(Object.entries(original))];
  const { properties } = DOCUMENT.components.schemas[schema] ?? assert.fail(`no schema ${schema}`);
  for (const [name, { anyOf = [] }] of Object.entries(properties)) {
    // Chosen by the scheduler, accepted and ignored in a request; a run that is started again starts now, without a name.
    if (name === 'gpu_id' || name === 'start_at' || name === 'name') continue;
    // A copy has CPU once.
    if (name === 'cpu' && expected.has('cpu_millis')) continue;
    assert.ok(expected.get(name) !== undefined, `give the run of this test a value for ${schema}.${name}`);
    const nested = anyOf
      .find(({ $ref }) => $ref !== undefined)
      ?.$ref?.split('/')
      .at(-1);
    if (nested === undefined) assert.deepEqual(values.get(name), expected.get(name), `${schema}.${name}`);
    else assertCopied(nested, values.get(name), expected.get(name));
  }
}

describe('Run again', () => {
  it('copies every field that a run can be created with', () => {
    assertCopied('OpRunCreate', copyOfRun(RUN, editableFields(RUN)), RUN);
  });

  it('copies every field that a run of a definition can be created with', () => {
    assertCopied('DefinitionRunCreate', copyOfDefinitionRun(RUN, editableFields(RUN)), RUN);
  });

  it('asks for as much RAM as the run did at first', () => {
    const grown = { ...RUN, execution_summary: { asked_ram_mb: 128 } };
    for (const { constraints } of [
      copyOfRun(grown, editableFields(grown)),
      copyOfDefinitionRun(grown, editableFields(grown)),
    ])
      assert.equal(constraints?.ram_mb, 128);
  });

  it('does not take the results of a completed run for its outputs template', () => {
    assert.equal(copyOfRun({ ...RUN, state: 'COMPLETED' }, editableFields(RUN)).outputs, null);
  });
});
