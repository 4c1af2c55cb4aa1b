// Reporter for one test file: a JSON line per finished test, read by scripts/test.mjs.
import { inspect } from 'node:util';

/** Totals that node:test adds as diagnostics. */
const TOTAL = /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

/**
 * Writes {status, name, text?} for every test that has no tests inside it, and for whatever fails by itself;
 * {status: 'note', text} for what the runner remarks; and {status: 'end'} once all tests of the file are through.
 */
export default async function* report(events) {
  const names = [];
  /** How many tests ended at each depth since the last one ended above it. */
  const ended = [];
  for await (const { type, data } of events) {
    if (type === 'test:start') {
      names[data.nesting] = data.name;
    } else if (type === 'test:pass' || type === 'test:fail') {
      const inside = ended[data.nesting + 1] ?? 0;
      ended[data.nesting + 1] = 0;
      ended[data.nesting] = (ended[data.nesting] ?? 0) + 1;
      const result = judge(type, data, inside);
      if (result !== undefined) {
        const name = [...names.slice(0, data.nesting), data.name].join(' > ');
        yield toLine({ ...result, name });
      }
    } else if (type === 'test:diagnostic' && !TOTAL.test(data.message)) {
      yield toLine({ status: 'note', text: data.message });
    }
  }
  yield toLine({ status: 'end' });
}

function toLine(result) {
  return `${JSON.stringify(result)}\n`;
}

function judge(type, data, inside) {
  const isSuite = data.details?.type === 'suite';
  const reason = data.skip ?? data.todo;
  if (reason !== undefined && reason !== false) {
    return { status: 'skipped', text: typeof reason === 'string' ? reason : '' };
  }
  if (type === 'test:pass') {
    return isSuite || inside > 0 ? undefined : { status: 'passed' };
  }
  const error = data.details?.error;
  if (error?.failureType === 'subtestsFailed') {
    return undefined;
  }
  return { status: 'failed', text: inspect(error?.cause ?? error, { depth: 6 }) };
}
