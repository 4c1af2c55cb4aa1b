import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Injectable, Logger, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { createLog, Log } from './logger.js';
import { LoggingModule } from './logging.module.js';
import { NestLogger } from './nest-logger.js';

function capture(): { log: Log; lines: () => Record<string, unknown>[] } {
  const parts: string[] = [];
  const destination = { write: (line: string) => void parts.push(line) };
  const log = createLog({ logLevel: 'debug' }, { destination, pretty: false });
  return { log, lines: () => parts.map(parseLine) };
}

function parseLine(line: string): Record<string, unknown> {
  const value: unknown = JSON.parse(line);
  assert.ok(typeof value === 'object');
  return { ...value };
}

@Injectable()
class Consumer {
  constructor(readonly log: Log) {}
}

@Module({ providers: [Consumer] })
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a module by its class
class ConsumerModule {}

describe('NestLogger', () => {
  it('writes each message at its own level', () => {
    const { log, lines } = capture();
    const nest = new NestLogger(log);
    nest.log('told', 'Budgets');
    nest.verbose('v');
    nest.debug('d');
    nest.warn('w', 'Router');
    nest.error('e', 'Error: e\n    at f (g:1:1)', 'Router');
    nest.fatal('f');
    assert.deepEqual(
      lines().map((line) => [line['level'], line['msg'], line['context']]),
      [
        ['info', 'told', 'Budgets'],
        ['debug', 'v', undefined],
        ['debug', 'd', undefined],
        ['warning', 'w', 'Router'],
        ['error', 'e', 'Router'],
        ['error', 'f', undefined],
      ],
    );
    assert.match(String(lines()[4]?.['stack']), /^Error: e/);
  });

  it("writes Nest's own messages about its start at debug level, but for its warnings", () => {
    const { log, lines } = capture();
    const nest = new NestLogger(log);
    nest.log('Mapped {/runs, GET} route', 'RouterExplorer');
    nest.warn('odd', 'RouterExplorer');
    assert.deepEqual(
      lines().map((line) => line['level']),
      ['debug', 'warning'],
    );
  });

  it('makes fields of the objects behind a message', () => {
    const { log, lines } = capture();
    const nest = new NestLogger(log);
    nest.error(new Error('broken'), { requestId: 'r-1', level: 'forged' }, { team: 'a' }, 'Http');
    const { level, msg, requestId, team, context } = lines()[0] ?? {};
    assert.deepEqual([level, msg, requestId, team, context], ['error', 'broken', 'r-1', 'a', 'Http']);
  });

  it('serialises errors and objects given as the message', () => {
    const { log, lines } = capture();
    const nest = new NestLogger(log);
    nest.error(new TypeError('bad'));
    nest.warn({ a: 1 }, 'Ctx');
    assert.equal(lines()[0]?.['msg'], 'bad');
    assert.match(JSON.stringify(lines()[0]?.['error']), /"type":"TypeError"/);
    assert.deepEqual(lines()[1]?.['details'], { a: 1 });
  });

  it('serves loggers that Nest and its packages make for themselves', async () => {
    const { log, lines } = capture();
    const module = await Test.createTestingModule({ imports: [LoggingModule.register(log), ConsumerModule] })
      .setLogger(new NestLogger(log))
      .compile();
    new Logger('Package').error('broken', 'Error: broken\n    at x (y:1:1)');
    const line = lines().find((candidate) => candidate['msg'] === 'broken');
    assert.equal(line?.['context'], 'Package');
    assert.match(String(line?.['stack']), /at x/);
    assert.equal(module.get(Consumer, { strict: false }).log, log);
    Logger.overrideLogger(false);
    await module.close();
  });
});
