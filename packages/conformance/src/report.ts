import type { ScenarioResult } from './kit.js';

/** One line of the table; after a failure the reason and the end of the worker's output below it. */
export function reportLine({ name, promise, seconds, problem, printed }: ScenarioResult): string {
  const head = `${problem === null ? 'ok  ' : 'FAIL'}  ${name.padEnd(18)} ${seconds.toFixed(1).padStart(5)} s  ${promise}`;
  if (problem === null) return head;
  const log = printed.trimEnd() === '' ? '(it printed nothing)' : printed.trimEnd();
  return `${head}\n      ${problem}\n      What the worker printed last:\n${log.replaceAll(/^/gm, '      | ')}`;
}

/** The table's last line. */
export function summaryLine(results: readonly ScenarioResult[]): string {
  const failed = results.filter(({ problem }) => problem !== null).map(({ name }) => name);
  const seconds = results.reduce((sum, result) => sum + result.seconds, 0);
  const verdict = failed.length === 0 ? 'the worker conforms' : `it does not conform: ${failed.join(', ')}`;
  return `${results.length - failed.length} of ${results.length} passed in ${seconds.toFixed(0)} s: ${verdict}`;
}
