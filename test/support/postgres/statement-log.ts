import assert from 'node:assert/strict';
import { Client } from 'pg';

/**
 * Keeps every statement that any connection of this test process sends from now on.
 * @returns the statements, in order; empty it to begin anew
 */
export function logStatements(): string[] {
  const statements: string[] = [];
  onStatement((_, statement) => void statements.push(statement));
  return statements;
}

/** As logStatements, apart for each database. @returns the statements that are sent to the database of a URL */
export function logStatementsByDatabase(): (url: string) => string[] {
  const logs = new Map<unknown, string[]>();
  const logOf = (database: unknown): string[] => {
    const log = logs.get(database) ?? [];
    logs.set(database, log);
    return log;
  };
  onStatement((database, statement) => void logOf(database).push(statement));
  return (url) => logOf(new URL(url).pathname.slice(1));
}

function onStatement(listener: (database: unknown, statement: string) => void): void {
  const query: unknown = Reflect.get(Client.prototype, 'query');
  assert.ok(typeof query === 'function');
  Reflect.set(
    Client.prototype,
    'query',
    new Proxy(query, {
      apply: (target, client, args: unknown[]): unknown => {
        const [statement] = args;
        const text = typeof statement === 'string' ? statement : JSON.stringify(statement);
        listener(Reflect.get(Object(client), 'database'), text);
        return Reflect.apply(target, client, args);
      },
    }),
  );
}
