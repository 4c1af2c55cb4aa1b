import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { requireSupportedServer } from './migrate.js';

describe('the oldest server', () => {
  it('is PostgreSQL 14', () => {
    requireSupportedServer(140_000, '14.0');
    requireSupportedServer(180_004, '18.4');
    assert.throws(() => requireSupportedServer(130_022, '13.22 (Debian)'), {
      message: 'PostgreSQL 14 or newer is needed; the database server runs 13.22 (Debian)',
    });
  });
});
