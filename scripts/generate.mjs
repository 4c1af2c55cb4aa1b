/* oxlint-disable no-console -- a command for the terminal */
// `npm run generate`: writes every generated file that is committed, from the service and from the results of benchmarks.
// `-- --check` writes nothing and fails when one of them differs.
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { pageFiles } from '../bench/lib/pages/pages.mjs';
import { withoutAges } from '../bench/lib/pages/performance-page.mjs';
import { buildIfNeeded } from './build-if-needed.mjs';
import { constantsModule, describeOptions } from './describe-constants.mjs';
import { settingsExample, settingsTable } from './describe-settings.mjs';
import { describeTransitions, sketchTransitions } from './describe-transitions.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const run = promisify(execFile);
const CONSTANTS = 'packages/client/src/constants.ts';
const load = (path) => import(join(root, 'dist', path));

async function openapi() {
  const { stdout } = await run(process.execPath, ['dist/src/bootstrap/openapi/print-openapi.js'], {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
}

async function schema() {
  const [{ startEmbeddedPostgres }, { connectDatabase }, { migrate }, { dumpSchema }, { MIGRATIONS }] =
    await Promise.all([
      import('@longshore/embedded-postgres'),
      load('src/database/connect.js'),
      load('src/database/migrate.js'),
      load('migrations/schema-dump.js'),
      load('migrations/all.js'),
    ]);
  const directory = await mkdtemp(join(tmpdir(), 'longshore-generate-'));
  await chmod(directory, 0o711);
  const cluster = await startEmbeddedPostgres({
    dataDir: join(directory, 'data'),
    serverOptions: { fsync: 'off' },
    log: () => {},
  });
  try {
    const settings = {
      url: cluster.url,
      poolSize: 2,
      applicationName: 'generate',
      entities: [],
      migrations: MIGRATIONS,
    };
    const dataSource = await connectDatabase(settings, { timeoutMs: 30_000 });
    try {
      await migrate(dataSource);
      return await dumpSchema(dataSource);
    } finally {
      await dataSource.destroy();
    }
  } finally {
    await cluster.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

const IN_PAGES = /(?<=<!-- generated -->\n)([^]*?)(?=<!-- end of generated -->)/;
const IN_ENV = /(?<=# --- generated\n)([^]*?)(?=# --- end of generated)/;

/** A file of which only the part between two comments is generated. */
async function withPart(name, part, place = IN_PAGES) {
  const [before, , after, ...more] = (await readFile(join(root, name), 'utf8')).split(place);
  if (after === undefined || more.length > 0) throw new Error(`${name} has not one generated part`);
  return `${before}\n${part}\n\n${after}`;
}

const isCheck = process.argv.includes('--check');
let stale = 0;

async function store(files) {
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, name);
    const present = await readFile(path, 'utf8').catch(() => undefined);
    if (present === text) continue;
    if (present !== undefined && withoutAges(present) === withoutAges(text)) continue;
    stale += 1;
    if (isCheck) {
      console.error(`${name} is not what 'npm run generate' writes`);
    } else {
      await writeFile(path, text);
      console.log(`wrote ${name}`);
    }
  }
}

await buildIfNeeded({ parts: ['libraries', 'service'] });
const { RUN_STATES: states, TERMINAL_STATES: terminalStates } = await load('src/runs/machine/run-state.js');
const { TRANSITIONS: transitions } = await load('src/runs/machine/transitions.js');
const {
  SPECIAL_EVENT_TYPES: eventTypes,
  FAILURE_CAUSES: causes,
  END_CAUSES: endCauses,
} = await load('src/runs/machine/event-types.js');
const { RETRY_ON_CAUSES: retryOnCauses } = await load('src/runs/machine/retry-on.js');
const { PENDING_REASONS: pendingReasons } = await load('src/runs/pending-reason.js');
const { OPTION_DECLARATIONS: options } = await load('src/runs/options/option-declarations.js');
const document = await openapi();
const described = JSON.parse(document);
const { RunsByState, Scope } = described.components.schemas;
const runStates = Object.keys(RunsByState.properties);
const names = {
  runStates,
  terminalStates: runStates.filter((state) => terminalStates.includes(state)),
  scopes: Scope.enum,
  causes,
  endCauses,
  pendingReasons,
  retryOnCauses,
  eventTypes,
  options: describeOptions(described, options),
};
// The other packages are compiled with them.
await store({ 'openapi.json': document, [CONSTANTS]: await constantsModule(join(root, CONSTANTS), names) });

await buildIfNeeded({ parts: ['clients'] });
const { WORKER_SETTINGS: ofWorker } = await import('@longshore/worker/settings/worker-settings');
const { SETTING_KEYS: ofService } = await load('src/config/settings.js');
const ofWorkerAlone = ofWorker.filter(({ env }) => !ofService.some((setting) => setting.env === env));
await store({
  'docs/run-states.md': describeTransitions({ transitions, states, terminalStates }),
  'docs/architecture.md': await withPart('docs/architecture.md', sketchTransitions({ transitions })),
  'docs/worker.md': await withPart('docs/worker.md', settingsTable(ofWorker)),
  '.env.example': await withPart('.env.example', settingsExample(ofWorkerAlone), IN_ENV),
  'migrations/schema.txt': await schema(),
  ...(await pageFiles()),
});
if (isCheck) process.exitCode = stale === 0 ? 0 : 1;
