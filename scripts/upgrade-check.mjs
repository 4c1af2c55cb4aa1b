/* oxlint-disable no-console -- a command for the terminal */
// `npm run upgrade:check -- [--from REVISION] [--minutes N]`: the version of a commit and this one over one database,
// under load, while one takes the place of the other and back; ends with the figures.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

function readArguments() {
  try {
    const { values } = parseArgs({
      options: { from: { type: 'string' }, minutes: { type: 'string', default: '10' } },
    });
    if (Number(values.minutes) > 0) return values;
    console.error(`--minutes must be a number above 0, got "${values.minutes}"`);
  } catch (error) {
    console.error(error.message);
  }
  process.exit(2);
}

const { from, minutes } = readArguments();
const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
const argv = [vitest, 'run', '--reporter', 'verbose', 'test/e2e/programs/upgrade.spec.ts'];
const { status } = spawnSync(process.execPath, argv, {
  cwd: ROOT,
  stdio: 'inherit',
  env: {
    ...process.env,
    LONGSHORE_UPGRADE_MINUTES: minutes,
    ...(from === undefined ? {} : { LONGSHORE_UPGRADE_FROM: from }),
  },
});
process.exitCode = status ?? 1;
