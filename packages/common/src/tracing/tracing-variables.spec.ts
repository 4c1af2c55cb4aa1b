import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { startTracing } from './start-tracing.js';
import { isTracingAsked, tracingProblems } from './tracing-variables.js';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };

describe('traces are asked for', () => {
  for (const env of [
    ENDPOINT,
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector.example/v1/traces' },
  ]) {
    it(`by ${Object.keys(env).join()}`, () => {
      assert.equal(isTracingAsked(env), true);
      assert.deepEqual(tracingProblems(env), []);
    });
  }

  for (const [title, env] of [
    ['without an endpoint', { OTEL_SERVICE_NAME: 'x' }],
    ['by an empty endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }],
    ['when OTEL_SDK_DISABLED is true', { ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' }],
    ['when OTEL_TRACES_EXPORTER is none', { ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }],
  ] as const) {
    it(`not ${title}`, async () => {
      assert.equal(isTracingAsked(env), false);
      assert.equal(await startTracing(env, { name: 'x', warn: assert.fail }), null);
    });
  }
});

describe('a variable with which no span would arrive', () => {
  it('is named, without the value of a URL', () => {
    const problems = tracingProblems({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'grpc://me:hunter2@collector:4317',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    });
    assert.deepEqual(problems, [
      'OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// URL (the value is not shown)',
      "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json; grpc is not supported: use the collector's port for HTTP, 4318 (docs/tracing.md)",
    ]);
  });

  for (const [name, bad, good] of [
    ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE', ['0', '-1', '1.5', 'many'], ['1', '512']],
    ['OTEL_BSP_MAX_QUEUE_SIZE', ['0', '-5'], ['2048']],
    ['OTEL_TRACES_SAMPLER', ['rubbish'], ['always_on', 'parentbased_traceidratio']],
    ['OTEL_TRACES_EXPORTER', ['console'], ['otlp']],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', ['grpc'], ['http/json']],
  ] as const) {
    it(`is ${name} when it cannot be used`, () => {
      for (const text of bad) {
        const [problem = '', ...more] = tracingProblems({ ...ENDPOINT, [name]: text });
        assert.ok(problem.startsWith(`${name} must be `) && more.length === 0, `${text}: ${problem}`);
      }
      for (const text of good) assert.deepEqual(tracingProblems({ ...ENDPOINT, [name]: text }), [], text);
    });
  }

  it('is the share to be sampled when it is none', () => {
    const ratio = { ...ENDPOINT, OTEL_TRACES_SAMPLER: 'traceidratio' };
    for (const text of ['abc', '2', '-0.1']) {
      assert.deepEqual(tracingProblems({ ...ratio, OTEL_TRACES_SAMPLER_ARG: text }), [
        'OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1',
      ]);
    }
    for (const text of ['0', '1', '0.01', '.5', '1.0']) {
      assert.deepEqual(tracingProblems({ ...ratio, OTEL_TRACES_SAMPLER_ARG: text }), [], text);
    }
  });

  it('does not matter where another one is there for traces alone', () => {
    const env = {
      ...ENDPOINT,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
    };
    assert.deepEqual(tracingProblems(env), []);
  });

  it('does not matter while traces are off', () => {
    assert.deepEqual(tracingProblems({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }), []);
  });
});
