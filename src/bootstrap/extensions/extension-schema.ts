import { DefaultNamingStrategy, getMetadataArgsStorage } from 'typeorm';
import { MIGRATIONS } from '../../../migrations/all.js';
import type { EntityClass, MigrationClass, SchemaClasses } from '../../database/data-source.js';
import { ENTITIES } from '../../database/entities/all.js';

/** @throws Error unless the exported value is a list of classes with `@Entity`, or absent */
export function entitiesOf(exported: unknown = []): EntityClass[] {
  return classesOf('entities', exported).map((entity) => {
    if (tableNameOf(entity) === undefined) {
      throw new Error(`exports entities of which '${entity.name}' is not decorated with @Entity`);
    }
    return entity;
  });
}

/** @throws Error unless the exported value is a list of TypeORM migrations, or absent */
export function migrationsOf(exported: unknown = []): MigrationClass[] {
  return classesOf('migrations', exported).map((migration) => {
    if (!isMigration(migration)) {
      throw new Error(`exports migrations of which '${migration.name}' has no methods up and down`);
    }
    if (!/\d{13}$/.test(migrationName(migration))) {
      throw new Error(`exports the migration '${migration.name}', whose name does not end in 13 digits`);
    }
    return migration;
  });
}

/** The first table or migration name that the service or another extension has too, as a problem to report. */
export function collisionOf(
  { entities, migrations }: SchemaClasses,
  others: readonly SchemaClasses[],
): string | undefined {
  const all = [{ entities: ENTITIES, migrations: MIGRATIONS }, ...others];
  const tables = new Set(all.flatMap((other) => other.entities).map(tableNameOf));
  const names = new Set(all.flatMap((other) => other.migrations).map(migrationName));
  for (const entity of entities) {
    const table = tableNameOf(entity);
    if (tables.has(table))
      return `exports the entity '${entity.name}', but the table '${table}' has one already`;
    tables.add(table);
  }
  for (const migration of migrations) {
    const name = migrationName(migration);
    if (names.has(name)) return `exports the migration '${name}', but there is one of this name already`;
    names.add(name);
  }
  return undefined;
}

type Class = (new () => object) & { readonly prototype: object };

function classesOf(name: string, exported: unknown): Class[] {
  if (!Array.isArray(exported) || !exported.every(isClass)) {
    throw new Error(`exports ${name} that are not an array of classes`);
  }
  return exported;
}

function isClass(value: unknown): value is Class {
  return typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null;
}

function isMigration(value: Class): value is MigrationClass & Class {
  return ['up', 'down'].every((name) => typeof Reflect.get(value.prototype, name) === 'function');
}

function tableNameOf(entity: Class): string | undefined {
  const table = getMetadataArgsStorage().tables.find(({ target }) => target === entity);
  return table && new DefaultNamingStrategy().tableName(entity.name, table.name);
}

/** The name by which TypeORM records a migration. */
function migrationName(migration: MigrationClass): string {
  return new migration().name ?? migration.name;
}
