import { errorType, type Span, type Tracing } from '@longshore/common/tracing/tracing';

/** Cached statement names. */
const MAX_NAMES = 500;

const names = new Map<string, StatementName>();

interface StatementName {
  readonly operation: string;
  readonly table: string | undefined;
}

/** Creates a span for each statement of a transaction. */
export class StatementTracer {
  constructor(
    private readonly tracing: Tracing,
    private readonly parent: Span,
  ) {}

  /** Starts the span of a statement. @returns ends it, with the error if the statement failed */
  begin(text: string): (error?: unknown) => void {
    const { operation, table } = nameOf(text);
    const summary = table === undefined ? operation : `${operation} ${table}`;
    const span = this.tracing.start(summary, {
      kind: 'client',
      parent: this.parent,
      attributes: {
        'db.system.name': 'postgresql',
        'db.query.summary': summary,
        'db.operation.name': operation,
        'db.collection.name': table,
      },
    });
    return (error) => {
      if (error !== undefined) span.fail(errorType(error));
      span.end();
    };
  }
}

function nameOf(text: string): StatementName {
  const known = names.get(text);
  if (known !== undefined) return known;
  const name = readName(text);
  if (names.size < MAX_NAMES) names.set(text, name);
  return name;
}

/** Reads operation and table from the text; skips the common table expressions of a `with`. */
function readName(text: string): StatementName {
  const write = /\b(insert\s+into|update(?!\s+(?:skip|of)\b)|delete\s+from)\s+([a-z_]+)/i.exec(text);
  if (write !== null)
    return { operation: (write[1] ?? '').split(/\s/)[0]?.toUpperCase() ?? '', table: write[2] };
  const operation = /^\s*([a-z]+)/i.exec(text)?.[1]?.toUpperCase() ?? 'STATEMENT';
  return { operation, table: /\bfrom\s+([a-z_]+)\b(?!\s*\()/i.exec(text)?.[1] };
}
