import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { RowArrays, unnestRows } from './sql.js';

describe('unnestRows', () => {
  it('makes one array parameter per column, from the first number on', () => {
    const t = new Date('2026-11-21T07:00:00.123Z');
    const source = unnestRows(
      { id: 'uuid', index: 'integer', t: 'timestamptz', ratio: 'double precision' },
      [
        { id: 'a', index: 1, t, ratio: 0.5 },
        { id: 'b', index: 2, t: null, ratio: null },
      ],
      3,
    );
    assert.equal(
      source.sql,
      'unnest($3::uuid[], $4::integer[], $5::timestamptz[], $6::double precision[]) as v ("id", "index", "t", "ratio")',
    );
    assert.deepEqual(source.params, [
      '{"a","b"}',
      '{1,2}',
      '{"2026-11-21T07:00:00.123Z",NULL}',
      '{0.5,NULL}',
    ]);
  });

  it('refuses a row that lacks a column, and a date that is none', () => {
    const incomplete: Record<string, string>[] = [{ id: 'a' }];
    const columns: Record<string, string> = { id: 'uuid', msg: 'text' };
    assert.throws(() => unnestRows(columns, incomplete), {
      name: 'TypeError',
      message: "row 0 has no value for column 'msg'",
    });
    assert.throws(() => unnestRows({ t: 'timestamptz' }, [{ t: new Date(Number.NaN) }]), RangeError);
  });

  it('refuses names and types that would change the statement', () => {
    for (const name of ['a b', 'a"', 'A', '', '1a'])
      assert.throws(() => unnestRows({ [name]: 'text' }, []), RangeError);
    for (const type of ['text[]', 'text) --', '', 'numeric(1,2)']) {
      assert.throws(() => unnestRows({ a: type }, []), RangeError);
    }
  });
});

describe('the arrays of a statement that is written out', () => {
  it('have the properties of the rows in the order of its columns', () => {
    const sql = `insert into t (a_b, c) select v.* from unnest($2::uuid[], $3::json[])
                   as v (a_b, c)`;
    const arrays = RowArrays.of<'aB' | 'c'>(sql);
    assert.deepEqual(arrays.params([{ c: { x: 1 }, aB: 'i' }]), ['{"i"}', String.raw`{"{\"x\":1}"}`]);
  });

  it('are refused unless each has a name', () => {
    for (const sql of [
      'select 1',
      'from unnest($1::uuid[], $2::text[]) as v (id)',
      'from unnest($1) as v (id)',
    ]) {
      assert.throws(() => RowArrays.of(sql), TypeError, sql);
    }
  });
});
