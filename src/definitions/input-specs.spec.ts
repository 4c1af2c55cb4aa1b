import assert from 'node:assert/strict';
import { test } from 'vitest';
import { jsonText, lazyJson } from '@longshore/common/json/json-text';
import type { InputSpec } from '../database/entities/definition.entity.js';
import { completeInputs } from './input-specs.js';

test('keeps the digits of inputs and defaults, and the order of inputs', () => {
  const stored: Record<string, InputSpec> = Object(
    lazyJson(
      '{"n":{"type":"number","required":false,"default":1e400},"1":{"type":"integer","required":true,"default":null}}',
    ),
  );
  const label = { type: 'label:any', required: false, default: null };
  const outcome = completeInputs(
    new Map([...Object.entries(stored), ['2', label]]),
    Object(lazyJson('{"2":[1.0],"1":1795358081062000000}')),
  );
  assert.ok('inputs' in outcome);
  assert.equal(jsonText(outcome.inputs), '{"2":[1.0],"1":1795358081062000000,"n":1e400}');
});
