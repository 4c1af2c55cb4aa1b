import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import {
  Body,
  Controller,
  Get,
  HttpCode,
  Injectable,
  Module,
  Param,
  Post,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { InjectRepository, TypeOrmModule } from '@nestjs/typeorm';
import { IsInt, Min } from 'class-validator';
import { Repository } from 'typeorm';
import {
  AllowScopes,
  CurrentCaller,
  DomainError,
  Public,
  RunEntity,
  RunEvents,
  RunReader,
  RunsService,
  type Caller,
  type OpRunDto,
} from '../../../src/extension.js';
import { until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

class TooMany extends DomainError {
  readonly kind = 'conflict';
}

class CreateManyDto {
  @IsInt()
  @Min(1)
  count: number;
}

@Injectable()
class FinishedRuns {
  readonly ids: string[] = [];

  constructor(events: RunEvents) {
    events.committed$.subscribe(({ type, run_id: id }) => {
      if (type === 'COMPLETED') this.ids.push(id);
    });
  }
}

/** Adds to the body of a request. */
@Injectable()
class SetTenant implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    context.switchToHttp().getRequest<{ body: Record<string, unknown> }>().body['tenant'] = 'a';
    return true;
  }
}

@Controller('fleet')
@AllowScopes('client')
class FleetController {
  constructor(
    private readonly runs: RunsService,
    private readonly reader: RunReader,
    private readonly events: RunEvents,
    private readonly finished: FinishedRuns,
    @InjectRepository(RunEntity) private readonly rows: Repository<RunEntity>,
  ) {}

  @Post()
  async create(@Body() { count }: CreateManyDto, @CurrentCaller() caller: Caller): Promise<OpRunDto[]> {
    if (count > 2) throw new TooMany(`${count} runs are too many for ${caller.name}`);
    const requests = Array.from({ length: count }, (_, index) => ({
      image: 'fleet',
      inputs: { index },
      event_delivery: { topic: 'fleet' },
    }));
    return (await Promise.all(requests.map((request) => this.runs.create(request)))).map(({ run }) => run);
  }

  @Post('tenant')
  @UseGuards(SetTenant)
  tenant(@Body() body: object): object {
    return body;
  }

  @Post(':id/restart')
  @HttpCode(200)
  async restart(@Param('id') id: string): Promise<OpRunDto> {
    await this.runs.cancel(id);
    return this.runs.retry(id);
  }

  @Get()
  async list(): Promise<object> {
    const { events } = await this.events.read(null, 500);
    return {
      rows: await this.rows.countBy({ image: 'fleet' }),
      events: events.map(({ type }) => type),
      finished: this.finished.ids,
    };
  }

  @Get(':id')
  @Public()
  get(@Param('id') id: string): Promise<OpRunDto> {
    return this.reader.getRun(id, false);
  }
}

@Module({
  imports: [TypeOrmModule.forFeature([RunEntity])],
  controllers: [FleetController],
  providers: [FinishedRuns],
})
class FleetModule {}

describe('a module of an extension', () => {
  const service = useTestApp({ extensions: [FleetModule] });

  test('creates, reads, cancels and retries runs, and sees their events and rows', async () => {
    const { send } = service;
    const created = await send('POST', '/fleet', { body: { count: 2 }, key: KEYS.client });
    assert.equal(created.status, 201, created.text);
    const [first, second] = created.body;
    const run = (await send('GET', `/runs/${second.id}`)).body;
    assert.deepEqual([run.image, run.inputs, run.event_delivery.topic], ['fleet', { index: 1 }, 'fleet']);
    const restarted = await send('POST', `/fleet/${first.id}/restart`, { key: KEYS.client });
    assert.deepEqual([restarted.body.state, restarted.body.current_attempt], ['PENDING', 2]);
    const steps = new RunSteps(send);
    await steps.heartbeat();
    await steps.emptyQueue();
    await steps.event(second.id, 'COMPLETED');
    // Open transactions of the cluster's other databases hold events back.
    const read = async () => (await send('GET', '/fleet')).body;
    assert.deepEqual(await until(read, ({ events }) => events.length >= 3), {
      rows: 2,
      events: ['CANCELLED', 'RETRIED', 'COMPLETED'],
      finished: [second.id],
    });
    assert.equal((await send('GET', `/fleet/${second.id}`, { key: null })).body.state, 'COMPLETED');
  });

  test('answers errors in the shape of the service', async () => {
    const { send } = service;
    for (const [method, path, request, status, body] of [
      ['POST', '/fleet', { body: { count: 3 }, key: KEYS.client }, 409, /3 runs are too many for /],
      ['POST', '/fleet', { body: { count: 0 } }, 400, /Request validation failed.*count/],
      ['POST', '/fleet', { body: { count: 1 }, key: null }, 401, /Missing API key/],
      ['POST', '/fleet', { body: { count: 1 }, key: KEYS.worker }, 403, /API key lacks scope 'client'/],
      ['GET', '/fleet/nope', {}, 404, /OpRun 'nope' not found/],
    ] as const) {
      const answer = await send(method, path, request);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, body);
      assert.equal(typeof answer.body.detail, 'string');
    }
  });

  test('may change the object of a body in a guard, whatever its numbers are', async () => {
    for (const inputs of ['{"n":1}', '{"n":1.0,"at":1795358081062000001}']) {
      const answer = await service.send('POST', '/fleet/tenant', { body: `{"inputs":${inputs}}` });
      assert.equal(answer.text, `{"inputs":${inputs},"tenant":"a"}`);
    }
  });

  test('has its routes in /docs-json', async () => {
    const { paths } = (await service.send('GET', '/docs-json')).body;
    assert.ok('post' in paths['/fleet'] && 'get' in paths['/fleet/{id}']);
    assert.notEqual(paths['/fleet'].post.security, undefined);
  });
});
