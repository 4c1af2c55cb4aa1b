import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { stripVTControlCharacters } from 'node:util';
import { ago, formatFields, formatTable, span, type Column } from './table.js';

interface Row {
  readonly id: string;
  readonly image: string;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'ID', text: ({ id }) => id, colour: () => 'green' },
  { title: 'IMAGE', text: ({ image }) => image, isElastic: true },
];
const ROWS = [
  { id: 'one', image: 'registry.example/a-long-name' },
  { id: 'sixteen', image: 'b\nb' },
];

describe('a table', () => {
  test('aligns its columns, has one line a row and no colours when it is read by a program', () => {
    assert.equal(
      formatTable(COLUMNS, ROWS, { columns: undefined, colours: false }),
      'ID       IMAGE\none      registry.example/a-long-name\nsixteen  b b\n',
    );
  });

  test('fits a narrow terminal by its elastic columns', () => {
    const text = formatTable(COLUMNS, ROWS, { columns: 24, colours: false });
    assert.equal(text, 'ID       IMAGE\none      registry.exa...\nsixteen  b b\n');
  });

  test('is as wide with colours as without', () => {
    const painted = formatTable(COLUMNS, ROWS, { columns: undefined, colours: true });
    assert.ok(painted.includes('\u001b[32mone'), painted);
    assert.equal(
      stripVTControlCharacters(painted),
      formatTable(COLUMNS, ROWS, { columns: undefined, colours: false }),
    );
  });
});

describe('fields', () => {
  test('leave out what has no value', () => {
    const fields = [
      ['id', '1'],
      ['error', undefined],
      ['state', 'FAILED'],
    ] as const;
    assert.equal(formatFields(fields, false), 'id     1\nstate  FAILED\n');
  });
});

describe('a span of time', () => {
  test('has the largest unit that still tells something', () => {
    const minute = 60_000;
    const spans = [0, 119_000, 2 * minute, 119 * minute, 120 * minute, 47 * 60 * minute, 48 * 60 * minute];
    assert.deepEqual(spans.map(span), ['0s', '119s', '2m', '119m', '2h', '47h', '2d']);
  });

  test('of what never was is a dash', () => {
    assert.equal(ago(null), '-');
    assert.equal(ago('2026-01-01T00:00:00.000Z', Date.parse('2026-01-01T00:05:00.000Z')), '5m');
  });
});
