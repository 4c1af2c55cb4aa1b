import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { beforeAll, describe, it } from 'vitest';
import type { Type } from '@nestjs/common';
import { getMetadataStorage } from 'class-validator';
import { RunEntity } from '../../../src/database/entities/run.entity.js';
import { ConstraintsInputDto } from '../../../src/runs/dto/constraints.dto.js';
import { EventDeliveryInputDto, TimeoutsInputDto } from '../../../src/runs/dto/timeouts-and-delivery.dto.js';
import {
  AmountGrowthInputDto,
  GrowthInputDto,
  RetryPolicyInputDto,
} from '../../../src/runs/dto/retry-policy.dto.js';
import { ConcurrencyInputDto } from '../../../src/runs/dto/execution-options.dto.js';
import { CreateRunDto } from '../../../src/runs/dto/run-requests.dto.js';
import { CREATION_TIMES, INITIAL_VALUES } from '../../../src/runs/machine/run.js';
import {
  listOptions,
  neededCapabilities,
  OPTIONS as DECLARED,
} from '../../../src/runs/options/stored-options.js';
import { RUNS } from '../../../src/runs/storage/run-columns.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** What only the worker reads. */
const CONTAINER = Object.fromEntries(DECLARED.map(([name, { example }]) => [name, example]));
/** Every field that a client can set, with a value that is not its default. A new field of a DTO belongs here. */
const OPTIONS = {
  constraints: {
    ram_mb: 1,
    vram_mb: 2,
    cpu: 3,
    cpu_millis: 2500,
    cpu_limit_millis: 4000,
    gpus: 1,
    gpu_selector: ['a100'],
    shm_mb: 1,
  },
  retry_policy: {
    max_attempts: 4,
    backoff_s: 5,
    max_backoff_s: 6,
    retry_on: ['oom', 'exit:1-2'],
    grow: { ram_mb: { factor: 1.5, max: 3, on: ['exit'] } },
  },
  timeouts: { start_within_s: 7000, attempt_s: 8000 },
  event_delivery: { topic: 'topic', attributes: { a: 'b' } },
  ...CONTAINER,
  selector: ['gpu', 'eu'],
  labels: { team: 'vision' },
  concurrency: { key: 'key', limit: 12, on_limit: 'skip' },
};
const BODY = {
  image: 'registry/image:1',
  priority: 9,
  inputs: { in: 10 },
  outputs: { out: 11 },
  name: 'nightly',
  start_at: '2020-01-31T09:00:00.250Z',
  ...OPTIONS,
};
const HEADERS = {
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'vendor=value',
};

/** Fields of a DTO that are only accepted, as the worker that gets the run chooses the GPU, and one that rows of another table keep. */
const IGNORED = ['gpu_id', 'depends_on'];

/** Columns of a new run that a request does not determine. */
const NOT_REQUESTED = [
  'id',
  'attemptId',
  'notBefore',
  'outcome',
  'endedWorker',
  'createdBy',
  'createdByName',
  'rerunOf',
  'scheduleId',
  'scheduleTime',
  'groupId',
  'groupRef',
  'arrayIndex',
  'arraySize',
  'hasSources',
  'hasFiles',
  'request',
  ...CREATION_TIMES,
  ...Object.keys(INITIAL_VALUES),
];

function fieldsOf(dto: Type): string[] {
  const metadata = getMetadataStorage().getTargetValidationMetadatas(dto, '', false, false);
  const fields = new Set(metadata.map(({ propertyName }) => propertyName));
  return [...fields].filter((field) => !IGNORED.includes(field)).toSorted();
}

describe('a field of a run', () => {
  const service = useTestApp();
  const runs = new RunSteps(service.send);

  beforeAll(async () => {
    const definition = { id: 'full', version: '1', image: BODY.image, ...OPTIONS };
    assert.equal((await service.send('POST', '/definitions', { body: definition })).status, 201);
  });

  const row = (id: string): Promise<RunEntity> =>
    service.dataSource.manager.findOneByOrFail(RunEntity, { id });

  const create = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const answer = await service.send('POST', path, { body, headers: HEADERS });
    assert.equal(answer.status, 201, answer.text);
    return answer.body;
  };

  const fromDefinition = (): Promise<Record<string, unknown>> => {
    const { priority, inputs, outputs, start_at, name } = BODY;
    return create('/definitions/full/runs', { priority, inputs, outputs, start_at, name });
  };

  it('is set by this test if a request can set it', () => {
    const dtos: [Type, object][] = [
      [CreateRunDto, BODY],
      [ConstraintsInputDto, OPTIONS.constraints],
      [RetryPolicyInputDto, OPTIONS.retry_policy],
      [GrowthInputDto, OPTIONS.retry_policy.grow],
      [AmountGrowthInputDto, OPTIONS.retry_policy.grow.ram_mb],
      [TimeoutsInputDto, OPTIONS.timeouts],
      [EventDeliveryInputDto, OPTIONS.event_delivery],
      [ConcurrencyInputDto, OPTIONS.concurrency],
    ];
    for (const [dto, body] of dtos) assert.deepEqual(Object.keys(body).toSorted(), fieldsOf(dto), dto.name);
  });

  it('is stored in its column', async () => {
    const full = await row(String((await create('/runs', BODY))['id']));
    const made = await row(String((await fromDefinition())['id']));
    const bare = await row((await runs.create()).id);
    for (const field of RUNS.fields) {
      if (NOT_REQUESTED.includes(field)) continue;
      assert.notDeepEqual(made[field], bare[field], `${field} of a run from a definition`);
      if (field.startsWith('definition')) continue;
      assert.notDeepEqual(full[field], bare[field], field);
      assert.deepEqual(made[field], full[field], field);
    }
  });

  it('is in every response', async () => {
    const created = await create('/runs', BODY);
    const id = String(created['id']);
    const constraints = { ...BODY.constraints, gpu_id: null };
    const shown = { ...BODY, constraints, traceparent: HEADERS.traceparent };
    const bulk = await service.send('POST', '/runs/batch', { body: { runs: [BODY] }, headers: HEADERS });
    const list = await service.send('GET', '/runs?limit=10');
    const responses: [string, Record<string, unknown>][] = [
      ['POST /runs', created],
      ['POST /definitions/{name}/runs', await fromDefinition()],
      ['POST /runs/batch', bulk.body.results[0].run],
      ['GET /runs', list.body.data.find((run: { id: string }) => run.id === id)],
      ['GET /runs/{id}', await runs.get(id)],
      ['PATCH /runs/{id}', (await service.send('PATCH', `/runs/${id}`, { body: { priority: 9 } })).body],
      ['PATCH /runs/{id}/labels', (await service.send('PATCH', `/runs/${id}/labels`, { body: {} })).body],
      ['POST /runs/{id}/events', await runs.event(id, 'NOTE')],
      ['POST /runs/{id}/cancel', (await service.send('POST', `/runs/${id}/cancel`)).body],
      ['POST /runs/{id}/retry', (await service.send('POST', `/runs/${id}/retry`)).body],
    ];
    for (const [route, response] of responses) {
      const found = Object.fromEntries(Object.keys(shown).map((field) => [field, response[field]]));
      const expected = route === 'GET /runs' ? { ...shown, ...Object(listOptions(CONTAINER)) } : shown;
      assert.deepEqual(found, expected, route);
    }
  });

  it('reaches the worker', async () => {
    await runs.heartbeat('w', {
      tags: OPTIONS.selector,
      capabilities: [...neededCapabilities(Object(CONTAINER)), 'cpu_millis', 'gpus', 'shm'],
      resources: { cpu_cores: 1, ram_mb: 1, gpus: [{ id: 0, vram_mb: 2, tags: ['a100'] }] },
    });
    while ((await runs.claim()).length > 0);
    await create('/runs', BODY);
    const [op] = await runs.claim();
    const { image, inputs, constraints, name, labels } = BODY;
    const { id: _, ...shown } = op;
    assert.deepEqual(shown, {
      image,
      name,
      labels,
      inputs,
      constraints: { ...constraints, gpu_id: null },
      attempt: 1,
      ...CONTAINER,
      ...HEADERS,
    });
  });

  it('is refused by the example worker, unless it announces what the field needs', () => {
    const program = readFileSync(new URL('../../../examples/worker/worker.py', import.meta.url), 'utf8');
    const namesIn = (list: string): string[] => {
      const [, names = ''] = new RegExp(`^${list} = [[{]([^\\]}]*)`, 'm').exec(program) ?? [];
      return [...names.matchAll(/"([^"]+)"/g)].map(([, name = '']) => name);
    };
    const announced = namesIn('CAPABILITIES');
    const isFit = ([name, value]: [string, unknown]): boolean =>
      neededCapabilities(Object({ [name]: value })).every((capability) => announced.includes(capability));
    const fit = Object.entries(CONTAINER)
      .filter(isFit)
      .map(([name]) => name);
    const handled = [...fit, ...namesIn('UNSUPPORTED')];
    assert.deepEqual(fit, ['env', 'command', 'args', 'secrets']);
    assert.deepEqual(
      Object.keys(CONTAINER).filter((name) => !handled.includes(name)),
      [],
    );
  });
});
