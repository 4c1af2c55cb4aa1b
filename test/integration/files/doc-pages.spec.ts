import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { PassThrough } from 'node:stream';
import { beforeAll, describe, test } from 'vitest';
import { CAPABILITIES, RUN_OPTIONS } from '@longshore/client/constants';
import { makeProgram } from '../../../packages/cli/src/program.js';
import { Output } from '../../../packages/cli/src/terminal/output.js';
import {
  anchorsOf,
  blocksOf,
  definitionsOf,
  labelsOf,
  linksOf,
  proseOf,
  readPages,
  type DocPage,
} from '../../support/docs/doc-pages.js';
import { PROJECT } from '../../support/service-process.js';
import {
  checkBenchCommand,
  checkComposeCommand,
  checkKubectlCommand,
} from '../../support/docs/doc-commands.js';

/** Specs that run the blocks of a page, and read it by its path. */
const RUN_BY = new Map([
  ['docs/autoscaling.md', 'test/e2e/service/autoscaler.spec.ts'],
  ['docs/bulk.md', 'test/api/description/command-pages.spec.ts'],
  ['docs/cli.md', 'test/e2e/cli/cli-page.spec.ts'],
  ['docs/labels.md', 'test/api/description/command-pages.spec.ts'],
  ['docs/long-runs.md', 'test/e2e/docs/long-runs.spec.ts'],
  ['docs/mounts-and-files.md', 'test/api/description/command-pages.spec.ts'],
  // This one asks that each of the page's names is run, by itself or by test/e2e/database/backup.spec.ts.
  ['docs/operations.md', 'test/e2e/docs/operations-page.spec.ts'],
  ['docs/python.md', 'test/e2e/docs/python-page.spec.ts'],
  ['docs/resources.md', 'test/api/description/command-pages.spec.ts'],
  ['docs/run-options.md', 'test/api/description/command-pages.spec.ts'],
  ['docs/tracing.md', 'test/e2e/docs/tracing-page.spec.ts'],
]);

/** Runs the other pages. */
const GENERAL = 'test/e2e/docs/doc-pages.spec.ts';

/** Who runs the commands of blocks that say `elsewhere`: a file and what stands in it. */
const ELSEWHERE: readonly (readonly [command: RegExp, file: string, text: string])[] = [
  [/^npm ci(?: && npm run demo)?$/, '.ci/run', 'npm ci'],
  [/npm run demo$/, 'test/e2e/programs/demo.spec.ts', 'startDemo'],
  [/^(?:npm ci && )?npm test$/, '.ci/run', 'npm test'],
  [/^npx vitest run /, '.ci/run', 'npx vitest run'],
  [/^LONGSHORE_TEST_ENGINE=crun npx vitest run /, 'test/e2e/worker/docker-variants.spec.ts', "'crun'"],
  [
    /^npm run test:(?:all|soak)$|^npx vitest(?: --| -t|$)|^node --inspect/,
    'vitest.config.ts',
    'LONGSHORE_TEST_TIER',
  ],
  // With five kills in place of one.
  [/^npm run test:failover$/, 'test/e2e/database/failover.spec.ts', 'KILLS'],
  [/^npm run test:kubernetes$/, 'test/e2e/engines/kubernetes-real-runs.spec.ts', 'startTestKubernetes'],
  [/^systemctl restart longshore-worker$/, 'examples/worker/longshore-worker.service', 'ON_STOP=leave'],
  [/^npm run dev$/, 'test/e2e/programs/dev.spec.ts', "'dev.mjs'"],
  [/^npm run lint$/, '.ci/run', 'npm run lint'],
  [/^npm run build$/, 'docker/Dockerfile', 'RUN npm run build'],
  [/^npx nest (?:build|start --watch)$/, 'test/e2e/programs/nest-cli.spec.ts', 'launch(NEST'],
  [/^npm run generate$/, '.ci/run', 'npm run generate:check'],
  [
    /^SERVICE_API_KEY=\.\.\. npm run worker -- --cpu /,
    'test/e2e/worker/worker-start.spec.ts',
    "'--cpu', '1'",
  ],
  [
    /^npm run worker:conformance -- --command /,
    'test/e2e/worker/worker-conformance.spec.ts',
    'SMALLEST_WORKER',
  ],
  // For ten minutes; the spec does the same for half of one.
  [/^npm run upgrade:check/, 'test/e2e/programs/upgrade.spec.ts', 'upgrade-run'],
  [
    /^npm run migration:\w+(?: -- migrations\/NAME)?$/,
    'test/e2e/database/migration-commands.spec.ts',
    'the migration commands',
  ],
  [/^sh docker\/make-env\.sh$/, 'test/integration/files/compose.spec.ts', 'makeEnv'],
  [/^\. docker\/\.env$/, 'test/integration/files/compose.spec.ts', 'makeEnv'],
  [/^docker build -f docker\/Dockerfile --target /, 'test/e2e/programs/images.spec.ts', 'ImagesInEngine'],
  [/^iptables -I /, 'test/e2e/worker/docker-network.spec.ts', "'docs/security.md'"],
  [/^docker build -t example\/greet /, GENERAL, 'elsewhere'],
  [/^npx longshore run create example\/greet /, GENERAL, 'elsewhere'],
  [/^(?:npm pack|c[pd]) .*~\/team-extension/, 'test/e2e/docs/extending.spec.ts', "one('elsewhere')"],
  // Installed from packed tarballs instead of the registry.
  [/^npm install (?:--global )?@longshore\//, 'test/e2e/programs/packages.spec.ts', 'OutsidePackage.install'],
  [/ npx longshore-worker /, 'test/e2e/programs/packages.spec.ts', "'longshore-worker'"],
  [/^longshore (?:login|run create) /, 'test/e2e/cli/cli-page.spec.ts', "'docs/cli.md'"],
  [/^npm run dashboard:dev$/, 'scripts/dev.mjs', 'vite/bin/vite.js'],
  [/^npx longshore serve --extensions /, 'test/e2e/docs/extending.spec.ts', "'--extensions'"],
];

/** Commands that take hours, a cluster or images of Docker Hub: not run, but what they name must exist. */
const CHECKED: readonly (readonly [command: RegExp, check: (command: string) => Promise<void>])[] = [
  [/npm run bench -- /, checkBenchCommand],
  [/^docker compose /, checkComposeCommand],
  [/^kubectl /, checkKubectlCommand],
];

/** A path of the repository in code quotes. */
const NAMED_PATH = /`((?:src|test|scripts|packages|migrations|docs|docker|examples|bench|demo)\/[^\s`:]+)`/g;

/** A spec, and beginnings of titles of its tests. */
const NAMED_TESTS = /`([\w/.-]+\.spec\.ts)`: ((?:"[^"|]+"(?:, )?)+)/g;

/** What the build, the tools, the operator or the first release make. */
const MADE_LATER =
  /\/dist\b|^docker\/(?:\.env|metrics\.key|compose\.override\.yaml)$|^test\/upgrade\/previous-version$/;

test('the worker protocol lists every option of a run and every capability', async () => {
  const page = await readFile(join(PROJECT, 'docs/worker-protocol.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(?<field>\w+)` +\| (?<needed>[^|]*)\|/gm)].map(({ groups }) => ({
    ...groups,
  }));
  const capabilitiesOf = (name: string): string =>
    rows.find(({ field }) => field === name)?.['needed'] ?? assert.fail(`${name} has no row`);
  for (const { name, capabilities } of RUN_OPTIONS) {
    for (const capability of capabilities) {
      const needed = typeof capability === 'string' ? capability : capability.name;
      assert.ok(capabilitiesOf(name).includes(`\`${needed}`), `${name} needs ${needed}`);
    }
  }
  for (const capability of CAPABILITIES)
    assert.ok(
      rows.some(({ needed }) => needed?.includes(`\`${capability}\``)),
      capability,
    );
});

describe('the pages of the documentation', () => {
  let pages: DocPage[];
  beforeAll(async () => {
    pages = await readPages();
  });

  test('are found', () => {
    for (const path of ['README.md', 'docs/architecture.md', 'docs/adr/001-vitest-on-sources.md']) {
      assert.ok(
        pages.some((page) => page.path === path),
        path,
      );
    }
  });

  test('link to files and headings that are there', () => {
    const anchors = new Map(pages.map((page) => [page.path, anchorsOf(page)]));
    const broken: string[] = [];
    let seen = 0;
    for (const page of pages) {
      for (const target of linksOf(page)) {
        seen += 1;
        if (/^https:\/\/[\w.-]+\.[a-z]+(?:[/?#]|$)/.test(target) || target.startsWith('mailto:')) continue;
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? page.path : normalize(join(dirname(page.path), path));
        const isThere = existsSync(join(PROJECT, file)) && !file.startsWith('..');
        if (!isThere || (anchor !== undefined && anchors.get(file)?.has(anchor) !== true)) {
          broken.push(`${page.path}: ${target}`);
        }
      }
    }
    assert.deepEqual(broken, []);
    assert.ok(seen > 50, `${seen} links`);
  });

  test('name files and folders that are there', () => {
    const missing: string[] = [];
    let seen = 0;
    for (const page of pages.filter(({ path }) => path !== 'CHANGELOG.md')) {
      for (const [, path = ''] of page.text.matchAll(NAMED_PATH)) {
        if (/NAME|NNN|[*{<]/.test(path) || MADE_LATER.test(path)) continue;
        seen += 1;
        if (!existsSync(join(PROJECT, path))) missing.push(`${page.path}: ${path}`);
      }
    }
    assert.deepEqual(missing, []);
    assert.ok(seen > 50, `${seen} paths`);
  });

  test('quote the beginnings of titles that the named tests have', async () => {
    let seen = 0;
    for (const page of pages) {
      for (const [, path = '', quoted = ''] of page.text.matchAll(NAMED_TESTS)) {
        const spec = await readFile(join(PROJECT, path), 'utf8');
        for (const [, title = ''] of quoted.matchAll(/"([^"]+)"/g)) {
          seen += 1;
          assert.ok(
            new RegExp(`(?:it|test)\\([\\s]*['\`]${title}`).test(spec),
            `${page.path}: ${path}: ${title}`,
          );
        }
      }
    }
    assert.ok(seen > 10, `${seen} titles`);
  });

  test('define the labels of their links, each once, and no others', () => {
    for (const page of pages) {
      const defined = [...definitionsOf(page).keys()].toSorted();
      assert.deepEqual([...new Set(labelsOf(page))].toSorted(), defined, page.path);
    }
  });

  test('are all reached from the README by links', () => {
    const byPath = new Map(pages.map((page) => [page.path, page]));
    const reached = new Set<string>();
    const visit = (path: string): void => {
      const page = byPath.get(path);
      if (page === undefined || reached.has(path)) return;
      reached.add(path);
      for (const target of linksOf(page)) {
        const [file = ''] = target.split('#');
        const linked = normalize(join(dirname(path), file));
        visit(linked);
        // A folder shows its list of files, or its README.
        for (const other of byPath.keys()) if (dirname(other) === linked) visit(other);
      }
    };
    visit('README.md');
    assert.deepEqual(
      pages.map(({ path }) => path).filter((path) => !reached.has(path)),
      [],
    );
  });

  test('have their commands in blocks that a test runs', async () => {
    const general = await readFile(join(PROJECT, GENERAL), 'utf8');
    for (const page of pages) {
      const here = blocksOf(page).filter(({ language, kind }) => language === 'sh' && kind !== 'elsewhere');
      if (here.length === 0) continue;
      const spec = RUN_BY.get(page.path);
      if (spec === undefined) {
        assert.ok(general.includes(`'${page.path}'`), `${GENERAL} does not run ${page.path}`);
        continue;
      }
      const text = await readFile(join(PROJECT, spec), 'utf8');
      assert.ok(text.includes(`'${page.path}'`), `${spec} does not read ${page.path}`);
    }
  });

  test('name who runs the commands that are run elsewhere', async () => {
    for (const page of pages) {
      for (const { kind, language, code, line } of blocksOf(page)) {
        if (language !== 'sh') continue;
        const isKnown = RUN_BY.has(page.path) || ['', 'service', 'worker', 'elsewhere'].includes(kind);
        assert.ok(isKnown, `${page.path}:${line}: ${kind}`);
        if (kind !== 'elsewhere') continue;
        for (const command of code.split('\n').map((text) => text.replace(/ +#.*/, '').trim())) {
          if (command === '') continue;
          const [, check] = CHECKED.find(([pattern]) => pattern.test(command)) ?? [];
          if (check !== undefined) {
            await check(command);
            continue;
          }
          const runners = ELSEWHERE.filter(([pattern]) => pattern.test(command));
          assert.ok(runners.length > 0, `${page.path}:${line}: nobody runs '${command}'`);
          for (const [, file, text] of runners) {
            assert.ok((await readFile(join(PROJECT, file), 'utf8')).includes(text), `${file}: ${text}`);
          }
        }
      }
    }
  });

  test('name scripts of the project that there are', async () => {
    const { scripts } = JSON.parse(await readFile(join(PROJECT, 'package.json'), 'utf8'));
    const named = pages
      .filter(({ path }) => !path.startsWith('CHANGELOG'))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => ({ path, name })),
      );
    assert.deepEqual(
      named.filter(({ name }) => !(name in scripts)),
      [],
    );
    assert.ok(named.length > 10);
  });

  test('name commands and flags of the command line that there are, in their text and in scripts', () => {
    const program = makeProgram({
      env: {},
      stdin: process.stdin,
      output: new Output(new PassThrough(), new PassThrough(), {}),
      argv: [],
      stop: () => new AbortController().signal,
      end: () => undefined,
    });
    const unknown: string[] = [];
    let seen = 0;
    for (const page of pages.filter(({ path }) => !/CHANGELOG|^docs\/adr/.test(path))) {
      for (const [line = '', text = ''] of page.text.matchAll(
        /(?<=[`\s(])longshore ((?:[a-z]+|--?[a-z][\w-]*)\b[^`\n|;&)]*)/g,
      )) {
        const words = text.split(' -- ')[0]?.split(/\s+/) ?? [];
        let command = program;
        while (command.commands.length > 0) {
          const next = command.commands.find((one) => one.name() === words[0]);
          if (next === undefined) break;
          command = next;
          words.shift();
        }
        if (command === program) continue;
        seen += 1;
        // Those of the programs and of the inputs of a definition are not declared.
        if (['serve', 'worker'].includes(command.name()) || text.startsWith('def run')) continue;
        // A group without a word is its list.
        const options = [command, ...command.commands].flatMap((one) => one.options);
        const known = new Set(['--help', ...options.flatMap(({ short, long }) => [short, long])]);
        const flags = words.flatMap((word) => /^(?:--[a-z][\w-]*|-[a-z]$)/.exec(word)?.[0] ?? []);
        const isGroup = command.commands.length > 0 && /^[a-z]/.test(words[0] ?? '');
        if (isGroup || flags.some((flag) => !known.has(flag))) unknown.push(`${page.path}: ${line}`);
      }
    }
    assert.deepEqual(unknown, []);
    assert.ok(seen > 100, `${seen} commands`);
  });

  test('have no command outside of blocks', () => {
    const commands =
      /^ {4,}(?:\$ )?(?:[A-Z_]+=\S+ )*(?:npm|npx|node|curl|docker|longshore|bash|psql|pg_\w+) /m;
    const found = pages.filter((page) => commands.test(proseOf(page))).map(({ path }) => path);
    assert.deepEqual(found, []);
  });
});
