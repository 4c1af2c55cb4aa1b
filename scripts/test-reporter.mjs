// Reporter of one test process: a JSON line per finished test, read by scripts/test.mjs.
import { inspect } from 'node:util';

/** Totals that node:test adds as diagnostics. */
const TOTAL = /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

/**
 * Writes {status, name, file, text?} for every test without subtests, and for every suite that fails itself;
 * {status: 'time', file, ms} for every test and suite at the top; {status: 'note', text} for a diagnostic;
 * {status: 'coverage', files}; and {status: 'end'} when all tests have ended.
 */
export default async function* report(events) {
  const names = [];
  /** How many tests ended at each depth since the last one ended above it. */
  const ended = [];
  let file;
  for await (const { type, data } of events) {
    if (type === 'test:start') {
      names[data.nesting] = data.name;
      // A test within a suite may be defined by a helper in another file.
      if (data.nesting === 0) file = data.file;
    } else if (type === 'test:pass' || type === 'test:fail') {
      const inside = ended[data.nesting + 1] ?? 0;
      ended[data.nesting + 1] = 0;
      ended[data.nesting] = (ended[data.nesting] ?? 0) + 1;
      const result = judge(type, data, inside);
      if (result !== undefined) {
        const name = [...names.slice(0, data.nesting), data.name].join(' > ');
        yield toLine({ ...result, name, file });
      }
      if (data.nesting === 0) yield toLine({ status: 'time', file, ms: data.details?.duration_ms ?? 0 });
    } else if (type === 'test:coverage') {
      yield toLine({ status: 'coverage', files: data.summary.files });
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
  if (reason === 'test name does not match pattern') {
    return undefined;
  }
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
