/* oxlint-disable no-console -- a command for the terminal */
// `npm run upgrade:check -- [--from REVISION] [--minutes N]`: the version of a commit and this one over one database,
// under load, while one takes the place of the other and back; ends with the figures.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { BuildError, buildIfNeeded } from './build-if-needed.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

try {
  const { values } = parseArgs({
    options: { from: { type: 'string' }, minutes: { type: 'string', default: '10' } },
  });
  if (!(Number(values.minutes) > 0)) {
    throw new TypeError(`--minutes must be a number above 0, got "${values.minutes}"`);
  }
  await buildIfNeeded();
  const child = spawn(
    process.execPath,
    [
      '--enable-source-maps',
      '--test-reporter=spec',
      join(ROOT, 'dist', 'test', 'e2e', 'programs', 'upgrade.spec.js'),
    ],
    {
      cwd: ROOT,
      stdio: 'inherit',
      env: {
        ...process.env,
        LONGSHORE_UPGRADE_MINUTES: values.minutes,
        ...(values.from === undefined ? {} : { LONGSHORE_UPGRADE_FROM: values.from }),
      },
    },
  );
  const [code] = await once(child, 'exit');
  process.exitCode = code ?? 1;
} catch (error) {
  console.error(error instanceof BuildError || error instanceof TypeError ? error.message : error);
  process.exitCode = 2;
}
