import { escapeIdentifier } from 'pg';
import { errorText } from '@longshore/common/errors';
import { codeOf } from './failover/unavailable.js';

/** From here on, the owner of a database alone may create tables in its schema `public`. */
const FIRST_WITH_CLOSED_PUBLIC = 150_000;

/** A migration failed; those before it are applied. */
export class MigrationFailed extends Error {
  override readonly name = 'MigrationFailed';

  constructor(migration: string, reason: unknown, place: MigrationPlace) {
    const advice = adviceOn(reason, place);
    super(
      `migration ${migration} failed, the schema is as it was before it: ${errorText(reason)}${advice === undefined ? '' : `; ${advice}`}`,
      { cause: reason },
    );
  }
}

/** Where migrations create their tables. */
export interface MigrationPlace {
  readonly number: number;
  readonly version: string;
  readonly database: string;
  readonly role: string;
  /** Null: no schema of the search path exists, or the role may use none. */
  readonly schema: string | null;
}

/** SQLSTATEs of a name that is taken: a table, a function, another object. */
const TAKEN: readonly (string | undefined)[] = ['42P07', '42723', '42710'];

/** What the operator can do about it. */
function adviceOn(reason: unknown, { number, schema, ...names }: MigrationPlace): string | undefined {
  const code = codeOf(reason);
  const [database, role] = [names.database, names.role].map(escapeIdentifier);
  if (TAKEN.includes(code)) {
    return `another program uses the schema ${schema}: give Longshore a database of its own, or a schema: create schema longshore authorization ${role}; alter role ${role} in database ${database} set search_path = longshore`;
  }
  if (code === '3F000') return `as an administrator: create schema authorization ${role}`;
  if (code !== '42501' || schema === null) return undefined;
  if (schema === 'public' && number >= FIRST_WITH_CLOSED_PUBLIC) {
    return `as an administrator: alter database ${database} owner to ${role}`;
  }
  return `as an administrator: grant usage, create on schema ${escapeIdentifier(schema)} to ${role}`;
}
