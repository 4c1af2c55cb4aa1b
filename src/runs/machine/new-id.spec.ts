import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { newId, isRunId } from './new-id.js';

describe('new ids', () => {
  test('are UUIDs of version 7, each greater than the one before', () => {
    const ids = Array.from({ length: 20_000 }, newId);
    for (const id of ids) {
      assert.ok(isRunId(id), id);
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
    }
    assert.deepEqual(ids.toSorted(), ids);
    assert.equal(new Set(ids).size, ids.length);
  });
});
