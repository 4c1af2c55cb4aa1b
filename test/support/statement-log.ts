import assert from 'node:assert/strict';
import { Client } from 'pg';

/**
 * Keeps every statement that any connection of this test process sends from now on.
 * @returns the statements, in order; empty it to begin anew
 */
export function logStatements(): string[] {
  const statements: string[] = [];
  const query: unknown = Reflect.get(Client.prototype, 'query');
  assert.ok(typeof query === 'function');
  Reflect.set(
    Client.prototype,
    'query',
    new Proxy(query, {
      apply: (target, client, args: unknown[]): unknown => {
        const [statement] = args;
        statements.push(typeof statement === 'string' ? statement : JSON.stringify(statement));
        return Reflect.apply(target, client, args);
      },
    }),
  );
  return statements;
}
