import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { QueryFailedError, QueryRunnerAlreadyReleasedError } from 'typeorm';
import { isBadValue, isDatabaseUnavailable, isRefusal, isRetryable, markConnecting } from './unavailable.js';

function coded(code: string, message = 'something'): Error {
  return Object.assign(new Error(message), { code });
}

function wrapped(error: Error): QueryFailedError {
  return new QueryFailedError('select 1', [], error);
}

const AWAY = (
  'ECONNREFUSED ENOENT ECONNRESET EPIPE ENOTFOUND EAI_AGAIN ETIMEDOUT EHOSTUNREACH ' +
  '08000 08006 53100 53200 53300 57014 57P01 57P02 57P03 58030 XX001 25006'
)
  .split(' ')
  .map((code) => coded(code));

const AWAY_BY_MESSAGE = [
  'Connection terminated',
  'Connection terminated unexpectedly',
  'Connection terminated due to connection timeout',
  'Query read timeout',
  'timeout expired',
  'timeout exceeded when trying to connect',
  'Client has encountered a connection error and is not queryable',
  'Cannot use a pool after calling end on the pool',
  'Driver not Connected',
].map((message) => new Error(message));

const OTHERS = [
  '22021',
  '23505',
  '40001',
  '40P01',
  '42601',
  '42P01',
  '28P01',
  '3D000',
  'ERR_INVALID_URL',
].map((code) => coded(code));

describe('isDatabaseUnavailable', () => {
  it('knows a database that is away, bare and wrapped', () => {
    for (const error of [...AWAY, ...AWAY_BY_MESSAGE]) {
      assert.equal(isDatabaseUnavailable(error), true, `${error.message} ${JSON.stringify(error)}`);
      assert.equal(isDatabaseUnavailable(wrapped(error)), true, `wrapped ${error.message}`);
    }
  });

  it('knows a host whose addresses all failed', () => {
    assert.equal(
      isDatabaseUnavailable(new AggregateError([coded('ECONNREFUSED'), coded('ECONNREFUSED')])),
      true,
    );
    assert.equal(isDatabaseUnavailable(new AggregateError([coded('ERR_OTHER')])), false);
  });

  it('knows a transaction whose connection broke between two statements', () => {
    assert.equal(isDatabaseUnavailable(new QueryRunnerAlreadyReleasedError()), true);
  });

  it('leaves errors of the statement and of the program alone', () => {
    for (const error of OTHERS) {
      assert.equal(isDatabaseUnavailable(error), false, JSON.stringify(error));
      assert.equal(isDatabaseUnavailable(wrapped(error)), false, JSON.stringify(error));
    }
    for (const thrown of [undefined, null, 'ECONNREFUSED', 53300, {}, new TypeError('x is not a function')]) {
      assert.equal(isDatabaseUnavailable(thrown), false);
    }
  });
});

describe('isRefusal', () => {
  const queueFull = Object.assign(coded('54000'), { routine: 'PreCommit_Notify' });

  it('knows a server that answers but takes no writes or no connections, whose requests are 503', () => {
    const refusals = [
      coded('53100'),
      queueFull,
      ...['28P01', '28000', '3D000', '42P01', '55000'].map((code) => markConnecting(coded(code))),
    ];
    for (const error of refusals) {
      assert.ok(isRefusal(error), JSON.stringify(error));
      assert.ok(isDatabaseUnavailable(error), JSON.stringify(error));
    }
  });

  it('leaves outages, rows that are too large, and the same codes of statements alone', () => {
    const others = [
      coded('54000'),
      coded('42P01'),
      coded('57P01'),
      coded('53300'),
      markConnecting(coded('ECONNREFUSED')),
    ];
    for (const error of others) assert.equal(isRefusal(error), false, JSON.stringify(error));
    assert.equal(isDatabaseUnavailable(coded('54000')), false);
  });
});

describe('isBadValue and isRetryable', () => {
  it('go by the SQLSTATE, bare and wrapped', () => {
    for (const error of [...AWAY, ...AWAY_BY_MESSAGE, ...OTHERS]) {
      const code = 'code' in error ? error.code : undefined;
      for (const seen of [error, wrapped(error)]) {
        assert.equal(isBadValue(seen), code === '22021', String(code));
        assert.equal(isRetryable(seen), code === '40001' || code === '40P01', String(code));
      }
    }
  });

  it('do not take one of Node’s codes for an SQLSTATE', () => {
    assert.equal(isBadValue(coded('22ABC')), true);
    assert.equal(isBadValue(coded('EPIPE')), false);
    assert.equal(isBadValue('22021'), false);
  });
});
