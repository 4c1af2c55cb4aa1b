import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { Column, Entity, PrimaryColumn } from 'typeorm';
import { EntityTable } from './entity-table.js';

@Entity('things')
class ThingEntity {
  @PrimaryColumn('uuid') id: string;
  @Column('text', { name: 'short_name' }) shortName: string;
  @Column('text', { array: true }) tags: string[];
}

class NoEntity {
  id: string;
}

describe('EntityTable', () => {
  const things = new EntityTable(ThingEntity);

  it('makes the lists of columns of statements', () => {
    assert.equal(things.name, 'things');
    assert.equal(things.columns(), '"id", "short_name", "tags"');
    assert.equal(things.columns(things.except('tags'), 'v'), 'v."id", v."short_name"');
    assert.equal(things.select('t', ['shortName']), 't."short_name" as "shortName"');
    assert.equal(things.set(['shortName'], 'v'), '"short_name" = v."short_name"');
  });

  it('takes rows by the names of the properties', () => {
    const source = things.unnest(['id', 'shortName'], { extra: { n: 'integer' }, firstParam: 2 });
    assert.equal(source.sql, 'unnest($2::uuid[], $3::text[], $4::integer[]) as v ("id", "short_name", "n")');
    assert.deepEqual(source.params([{ id: 'a', shortName: 'x', n: 1 }]), ['{"a"}', '{"x"}', '{1}']);
  });

  it('refuses a class that is no entity, and columns that cannot be parameters', () => {
    assert.throws(() => new EntityTable(NoEntity), /NoEntity has no @Entity/);
    assert.throws(() => things.unnest(['tags']), /things\.tags/);
  });
});
