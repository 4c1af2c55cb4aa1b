import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { LogLevel } from '../../config/settings.js';
import { spanStorage } from '@longshore/common/tracing/current-span';
import type { Span } from '@longshore/common/tracing/tracing';
import { createLog, type Log } from './logger.js';

interface Capture {
  readonly log: Log;
  readonly text: () => string;
  /** Every line, parsed. */
  readonly lines: () => Record<string, unknown>[];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function ignore(): void {}

function spanOf(traceId: string, spanId: string): Span {
  return {
    traceId,
    spanId,
    context: { traceparent: '', tracestate: null },
    isRecorded: true,
    set: ignore,
    rename: ignore,
    link: ignore,
    fail: ignore,
    end: ignore,
  };
}

function capture(logLevel: LogLevel = 'debug', pretty = false): Capture {
  const parts: string[] = [];
  const log = createLog({ logLevel }, { destination: { write: (line) => void parts.push(line) }, pretty });
  const text = () => parts.join('');
  const lines = () =>
    text()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        const value: unknown = JSON.parse(line);
        assert.ok(isRecord(value));
        return value;
      });
  return { log, text, lines };
}

describe('the log', () => {
  it('writes one JSON line with level, ISO time, message and fields', () => {
    const { log, lines, text } = capture();
    log.info('run created', { runId: 'r', count: 2 });
    const { time, ...rest } = lines()[0] ?? {};
    assert.deepEqual(rest, { level: 'info', pid: process.pid, msg: 'run created', runId: 'r', count: 2 });
    assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.ok(text().endsWith('\n'));
  });

  it('names the levels as SERVICE_LOG_LEVEL does', () => {
    const { log, lines } = capture();
    log.debug('a');
    log.info('a');
    log.warn('a');
    log.error('a');
    assert.deepEqual(
      lines().map((line) => line['level']),
      ['debug', 'info', 'warning', 'error'],
    );
  });

  for (const [level, expected] of [
    ['debug', 4],
    ['info', 3],
    ['warning', 2],
    ['error', 1],
  ] as const) {
    it(`at level ${level} keeps ${expected} of the four levels`, () => {
      const { log, lines } = capture(level);
      log.debug('a');
      log.info('a');
      log.warn('a');
      log.error('a');
      assert.equal(lines().length, expected);
    });
  }

  it('carries the ids of the current span, across awaits and in child logs', async () => {
    const { log, lines } = capture();
    const child = log.child('Runs');
    await spanStorage.run(spanOf('trace-1', 'span-1'), async () => {
      await Promise.resolve();
      child.info('inside');
    });
    child.info('outside');
    assert.deepEqual(
      lines().map((line) => [line['trace_id'], line['span_id'], line['context']]),
      [
        ['trace-1', 'span-1', 'Runs'],
        [undefined, undefined, 'Runs'],
      ],
    );
  });

  it('does not let fields replace what the line says of itself', () => {
    const { log, lines, text } = capture();
    log.info('real', { level: 'error', time: 0, msg: 'forged', trace_id: 'forged', pid: 1, context: 'c' });
    assert.equal(lines()[0]?.['level'], 'info');
    assert.equal(lines()[0]?.['msg'], 'real');
    assert.equal(lines()[0]?.['msg_'], 'forged');
    assert.equal(text().match(/"level":/g)?.length, 1);
  });

  it('does not expand format characters of a message', () => {
    const { log, lines } = capture();
    log.info('100 % %s %j', { a: 1 });
    assert.equal(lines()[0]?.['msg'], '100 % %s %j');
  });

  it('logs an error by type, message, code, stack and cause only', () => {
    const { log, lines } = capture();
    const error = Object.assign(new TypeError('outer', { cause: new Error('inner') }), {
      code: 'ECONNREFUSED',
      parameters: ['secret row'],
    });
    log.error('failed', { error });
    const logged = lines()[0]?.['error'];
    assert.ok(isRecord(logged));
    assert.deepEqual(Object.keys(logged), ['type', 'message', 'stack', 'code', 'cause']);
    assert.equal(logged['type'], 'TypeError');
    assert.equal(logged['message'], 'outer');
    assert.equal(logged['code'], 'ECONNREFUSED');
    assert.match(String(logged['stack']), /logger\.spec/);
    assert.ok(isRecord(logged['cause']));
    assert.equal(logged['cause']['message'], 'inner');
  });

  it('shows the parts of an AggregateError, which has no message of its own', () => {
    const { log, lines } = capture();
    log.error('failed', { error: new AggregateError([new Error('v6 refused'), new Error('v4 refused')]) });
    assert.match(JSON.stringify(lines()[0]), /v6 refused.*v4 refused/);
  });

  it('survives whatever a field may be', () => {
    const { log, lines } = capture();
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    log.info('odd', {
      circle,
      big: 10n,
      nan: Number.NaN,
      date: new Date(0),
      badDate: new Date(Number.NaN),
      bytes: Buffer.alloc(3),
      map: new Map([['a', 1]]),
      nothing: null,
      absent: undefined,
      many: Array.from({ length: 5000 }, () => 0),
    });
    const line = lines()[0] ?? {};
    assert.equal(line['big'], '10');
    assert.equal(line['date'], '1970-01-01T00:00:00.000Z');
    assert.equal(line['bytes'], '[3 bytes]');
    assert.ok(Array.isArray(line['many']) && line['many'].length <= 100);
  });
});

describe('a field that cannot be read', () => {
  it('costs the fields of its line, but neither the line nor the work', () => {
    const { log, lines } = capture();
    const hostile = Object.defineProperty({}, 'name', {
      enumerable: true,
      get: () => {
        throw new Error('no');
      },
    });
    for (const fields of [{ hostile }, hostile]) {
      log.error('said', fields);
    }
    assert.deepEqual(
      lines().map(({ msg, fields }) => [msg, fields]),
      Array.from({ length: 2 }, () => ['said', '[unreadable]']),
    );
  });
});

describe('text from outside in the log', () => {
  const forged =
    'x\r\n{"level":"error","msg":"forged"}\n\u001b[2J\u009b31m\u2028\u0000\u202e\u061c\u200e\u200f';

  for (const pretty of [false, true]) {
    it(`adds no line and reaches no terminal in ${pretty ? 'pretty' : 'JSON'} mode`, () => {
      const { log, text } = capture('debug', pretty);
      log.info(forged, { requestId: forged, name: forged, hostname: forged, caller: forged, [forged]: 1 });
      assert.equal(text().match(/\n/g)?.length, 1);
      // oxlint-disable-next-line no-control-regex -- these characters are what must be absent
      const colours = /\u001b\[\d+m/g;
      const plain = text().replaceAll(colours, '');
      // oxlint-disable-next-line no-control-regex -- as above
      assert.doesNotMatch(plain, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u061c\u200e\u200f]/);
      assert.ok(!text().includes('\u001b[2J'));
    });
  }

  it('in an error message stays indented in pretty mode, so it never looks like a line of its own', () => {
    const { log, text } = capture('debug', true);
    log.error('failed', { error: new Error(forged) });
    const [first, ...others] = text().trimEnd().split('\n');
    assert.match(first ?? '', /failed/);
    assert.ok(others.length > 0 && others.every((line) => line.startsWith('    ')));
    assert.ok(!text().includes('\u001b[2J'));
  });

  it('is cut at 8 Ki', () => {
    const { log, lines } = capture();
    log.info('m'.repeat(1_000_000), { name: 'n'.repeat(1_000_000), kept: 'k'.repeat(8192) });
    const line = lines()[0] ?? {};
    assert.ok(String(line['msg']).length < 8300);
    assert.match(String(line['name']), /^n{8192}\.\.\. \(991808 more\)$/);
    assert.equal(line['kept'], 'k'.repeat(8192));
  });
});

describe('secrets in the log', () => {
  it('mask the password of a connection string wherever it appears', () => {
    const { log, text } = capture();
    const url = 'postgres://me:hunt/er@2:x@db.example:5432/app';
    log.child(url).info(`connecting to ${url}`, { url, nested: { list: [url] } });
    log.error('failed', { error: new Error(`no route to ${url}`, { cause: new Error(url) }) });
    assert.doesNotMatch(text(), /hunt|er@2/);
    assert.match(text(), /postgres:\/\/me:\*\*\*@db\.example:5432\/app/);
  });

  it('mask a password at the place where a long text is cut', () => {
    const { log, text } = capture();
    log.info(`${'x'.repeat(8192 - 20)} postgres://me:hunter2@db/app${'y'.repeat(100)}`);
    assert.doesNotMatch(text(), /hunt/);
  });

  it('mask key-value passwords and fields whose name says secret', () => {
    const { log, text } = capture();
    log.info('host=h password=hunter2 user=u', {
      password: 'hunter2',
      'X-API-Key': 'hunter2',
      apiKeyId: 'shown',
    });
    assert.doesNotMatch(text(), /hunter2/);
    assert.match(text(), /shown/);
  });

  it('stay linear on hostile text', () => {
    const { log } = capture();
    // Quadratic code would take longer than a test may.
    for (const part of ['://', '://a:', 'password=', 'a:', '@']) {
      log.info(part.repeat(100_000));
    }
  });
});
