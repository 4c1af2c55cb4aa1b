import type { Reporter, TestCase, TestModule } from 'vitest/node';

/**
 * Tells why a test failed when it fails, since a run that is stopped never gets to the list of failures, and ends a run
 * with the reasons for skipped tests and the plain line `N passed, N failed, N skipped`.
 */
export default class PlainReporter implements Reporter {
  onTestCaseResult(test: TestCase): void {
    for (const { stack = '', message, diff = '' } of test.result().errors ?? []) {
      const ours = stack.split('\n').filter((line) => !line.includes('/node_modules/'));
      console.log(`FAILED ${test.module.relativeModuleId} > ${test.fullName}`);
      console.log([stack === '' ? message : ours.join('\n'), diff].join('\n').trimEnd());
    }
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 };
    const reasons = new Map<string, number>();
    for (const module of modules) {
      // A file that cannot be loaded, or whose hooks fail, has no failed test.
      if (module.state() === 'failed' && ![...module.children.allTests('failed')].length) counts.failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== 'pending') counts[state] += 1;
        if (state === 'skipped') {
          const reason = reasonOf(test);
          reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
        }
      }
    }
    for (const [reason, count] of reasons) console.log(`skipped ${count}: ${reason}`);
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  }
}

function reasonOf(test: TestCase): string {
  const result = test.result();
  return (
    test.meta().skippedFor ?? ('note' in result && result.note !== undefined ? result.note : test.fullName)
  );
}
