import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { Cli } from '../../support/programs/cli.js';
import {
  makeDataDir,
  startService,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';
const WORKER_KEY = 'e2e-worker-key-of-the-tests';

/** Keeps its arguments as the model, and returns them. */
const TRAIN = `
echo "$*" > "$STORE/model"
echo "{\\"words\\": \\"$*\\"}" > "$SERVICE_OUTPUT_PATH"`;

/** Evaluates the model; three members fail at their first attempt. Returns how many execute beside it. */
const EVALUATE = `
set -e
now="$STORE/now/$SERVICE_ARRAY_INDEX"
mkdir "$now"
at_once=$(ls "$STORE/now" | wc -l)
model=$(cat "$STORE/model")
rmdir "$now"
case "$SERVICE_ARRAY_INDEX-$SERVICE_RUN_ATTEMPT" in 17-1|18-1|249-1) exit 3 ;; esac
echo "{\\"score\\": $((SERVICE_ARRAY_INDEX * SERVICE_ARRAY_INDEX)), \\"at_once\\": $at_once, \\"model\\": \\"$model\\", \\"words\\": \\"$*\\"}" > "$SERVICE_OUTPUT_PATH"`;

/** A step of a pipeline: says what it was made of. The step train-b fails at its first attempt. */
const STEP = `exec node - "$@" <<'END'
const { readFileSync, writeFileSync } = require('node:fs');
const [step, ...words] = process.argv.slice(2);
const { env } = process;
if (step === 'train-b' && env.SERVICE_RUN_ATTEMPT === '1') process.exit(3);
const { raw, made } = JSON.parse(readFileSync(env.SERVICE_INPUT_PATH, 'utf8'));
const bundles = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'TRACKING_TOKEN'].filter((name) => env[name]);
writeFileSync(env.SERVICE_OUTPUT_PATH, JSON.stringify({ words, bundles, made: step + '(' + (made ?? raw) + ')' }));
END`;

/** Needs the prices of the month before, but for the first month. */
const SNAPSHOT = `
set -e
[ -n "$MARKET_TOKEN" ] || exit 7
[ -n "$BUCKET_KEY" ] || exit 8
[ "$SERVICE_SCHEDULED_FOR" = "$EXECUTION_TS" ] || exit 9
[ "$PERIOD_START" = 2024-12-01T00:00:00+00:00 ] || [ -e "$STORE/prices/$INTERVAL-$PERIOD_START" ] || exit 10
minutes=$((($(date -d "$EXECUTION_TS" +%s) - $(date -d "$PERIOD_START" +%s)) / 60))
echo "$minutes" > "$STORE/prices/$INTERVAL-$EXECUTION_TS"
echo "{\\"window_minutes\\": $minutes}" > "$SERVICE_OUTPUT_PATH"`;

/** Finds the lines of a query in the data base, and stores them under the query's name. */
const BLAST = `
set -e
cp "$STORE/database" "$STORE/queries/$1" .
grep -F -f "$1" database > "\${1%.fasta}.sequences"
cp ./*.sequences "$STORE/found"
echo "{\\"hits\\": $(wc -l < "\${1%.fasta}.sequences")}" > "$SERVICE_OUTPUT_PATH"`;

const MERGE = `
set -e
cat "$STORE"/found/*.sequences > "$STORE/results.txt"
cp "$SERVICE_INPUT_PATH" "$SERVICE_OUTPUT_PATH"`;

/** A member of a group that takes the prices of an interval. */
const snapshotOf = (interval: string): string => `
    - ref: ${interval}
      image: snapshot
      env: { INTERVAL: ${interval}, EXECUTION_TS: '\${schedule.time}', PERIOD_START: '\${schedule.previous}' }
      concurrency: { key: prices-${interval}, limit: 1 }
      secrets_from: [{ secret: marketdata-credentials }, { secret: bucket-credentials }]
      constraints: { cpu_millis: 100, cpu_limit_millis: 500, ram_mb: 512 }
      retry_policy: { max_attempts: 2, backoff_s: 300 }`;

describe('jobs of several runs that people published for other systems run as they are meant', () => {
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  let steps: GroupSteps;
  let cli: Cli;
  let store: string;

  beforeAll(async () => {
    store = await makeDataDir();
    for (const name of ['now', 'prices', 'queries', 'found']) await mkdir(join(store, name));
    service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${ADMIN_KEY},worker:${WORKER_KEY}`,
        SERVICE_SECRETS_KEY: randomBytes(32).toString('base64'),
      },
    });
    send = senderTo(service.url, ADMIN_KEY);
    steps = new GroupSteps({ send });
    cli = await Cli.make({ SERVICE_URL: service.url, SERVICE_API_KEY: ADMIN_KEY, STORE: store });
    const images = await ScriptImages.make();
    const scripts = {
      train: TRAIN,
      evaluate: EVALUATE,
      step: STEP,
      snapshot: SNAPSHOT,
      blast: BLAST,
      merge: MERGE,
    };
    for (const [name, script] of Object.entries(scripts))
      await images.add(name, `STORE='${store}'\n${script}`);
    worker = await images.startWorker({
      url: service.url,
      key: WORKER_KEY,
      id: 'e2e-groups',
      env: { SERVICE_WORKER_MAX_RUNS: '64', SERVICE_WORKER_CPU: '64', SERVICE_WORKER_RAM_MB: '300000' },
    });
    await worker.untilOutput(/registered at the service/);
  });
  afterAll(async () => {
    await endWorker(worker);
    assert.equal(await service.stop(), 0, service.output);
  });

  /** What lines of a shell print. */
  async function type(script: string): Promise<string> {
    const { code, stdout, output } = await cli.shell(script);
    assert.equal(code, 0, output);
    return stdout;
  }

  async function storeSecrets(secrets: Readonly<Record<string, object>>): Promise<void> {
    for (const [name, value] of Object.entries(secrets)) {
      const { status, text } = await send('PUT', `/secrets/${name}`, { body: { kind: 'map', value } });
      assert.equal(status, 201, text);
    }
  }

  test('an AWS Batch script: a training, then an array of 250 evaluations, of which the failed ones alone are tried again', async () => {
    const printed = await type(`
TRAIN=$(longshore run create train --cpu 4 --ram-mb 16000 --attempt-timeout 7200 -- lr=0.001 run=17)
cat > evaluate.yaml <<END
name: evaluate
labels: { trial: '17' }
depends_on: [{ run: $TRAIN }]
max_parallel: 50
array:
  size: 250
  run:
    image: evaluate
    args: ['run=17', 'fold=\\\${array.index}']
    constraints: { cpu: 1, ram_mb: 4000 }
END
EVALUATE=$(longshore group create -f evaluate.yaml)
longshore group watch $EVALUATE || echo "exit code $?"
longshore group get $EVALUATE
longshore group retry $EVALUATE
longshore group watch $EVALUATE
longshore run list --label trial=17 --all --columns array.index,outputs.score --sort array.index --format csv
echo "group $EVALUATE"`);
    assert.match(printed, /^exit code 1$/m);
    assert.match(printed, /\b17-18,249$/m);
    assert.match(printed, /\n0,0\n1,1\n2,4\n3,9\n(?:\d+,\d+\n)+249,62001\n/);
    const [, id = ''] = /^group (\S+)$/m.exec(printed) ?? [];
    const members = await steps.members(id);
    const { state, counts } = await steps.get(id);
    assert.deepEqual([state, counts.completed, members.size], ['completed', 250, 250]);
    for (const [index, run] of members) {
      const { score, at_once: atOnce, model, words } = run.outputs;
      assert.deepEqual(
        [score, model, words, run.current_attempt],
        [
          Number(index) ** 2,
          'lr=0.001 run=17',
          `run=17 fold=${index}`,
          [17, 18, 249].includes(Number(index)) ? 2 : 1,
        ],
      );
      assert.ok(atOnce <= 50, `${atOnce} evaluations at a time`);
    }
  });

  test('an Argo DAG: a step, then two branches, with shared parameters and bundles of secrets; one branch is tried again', async () => {
    await storeSecrets({
      's3-credentials': { AWS_ACCESS_KEY_ID: 'id-of-the-tests', AWS_SECRET_ACCESS_KEY: 'key-of-the-tests' },
      'tracking-credentials': { TRACKING_TOKEN: 'token-of-the-tests' },
    });
    const printed = await type(`
cat > experiment.yaml <<'END'
name: experiment
inputs: { experiment: demo }
runs:
  - ref: build
    image: step
    args: [build, --raw, '\${inputs.raw}', --experiment, '\${inputs.experiment}']
    secrets_from: &bundles [{ secret: s3-credentials }, { secret: tracking-credentials }]
    constraints: &size { cpu_millis: 4000, cpu_limit_millis: 8000, ram_mb: 32768 }
  - ref: train-a
    depends_on: [{ ref: build }]
    image: step
    inputs: { made: { $from: { ref: build, output: /made } } }
    args: [train-a, --model, '\${inputs.model_a}', --experiment, '\${inputs.experiment}']
    secrets_from: *bundles
    constraints: *size
  - ref: train-b
    depends_on: [{ ref: build }]
    image: step
    inputs: { made: { $from: { ref: build, output: /made } } }
    args: [train-b, --model, '\${inputs.model_b}', --experiment, '\${inputs.experiment}']
    secrets_from: *bundles
    constraints: *size
  - ref: predict-a
    depends_on: [{ ref: train-a }]
    image: step
    inputs: { made: { $from: { ref: train-a, output: /made } } }
    args: [predict-a, --model, '\${inputs.model_a}']
    secrets_from: *bundles
    constraints: *size
  - ref: predict-b
    depends_on: [{ ref: train-b }]
    image: step
    inputs: { made: { $from: { ref: train-b, output: /made } } }
    args: [predict-b, --model, '\${inputs.model_b}']
    secrets_from: *bundles
    constraints: *size
END
GROUP=$(longshore group create -f experiment.yaml -i raw=s3://raw -i model_a=s3://a -i model_b=s3://b)
longshore group watch $GROUP || echo "exit code $?"
longshore run list --group $GROUP --columns group.ref,state,cause
longshore group retry $GROUP
longshore group watch $GROUP
echo "group $GROUP"`);
    assert.match(printed, /^exit code 1$/m);
    assert.match(printed, /^predict-a +COMPLETED/m);
    assert.match(printed, /^predict-b +CANCELLED +dependency/m);
    const [, id = ''] = /^group (\S+)$/m.exec(printed) ?? [];
    const found = [...(await steps.members(id))].map(([ref, run]) => [
      ref,
      [run.current_attempt, run.outputs.made],
    ]);
    assert.deepEqual(Object.fromEntries(found), {
      build: [1, 'build(s3://raw)'],
      'train-a': [1, 'train-a(build(s3://raw))'],
      'train-b': [2, 'train-b(build(s3://raw))'],
      'predict-a': [1, 'predict-a(train-a(build(s3://raw)))'],
      'predict-b': [2, 'predict-b(train-b(build(s3://raw)))'],
    });
    const train = (await steps.members(id)).get('train-b').outputs;
    assert.deepEqual(train.words, ['--model', 's3://b', '--experiment', 'demo']);
    assert.deepEqual(train.bundles, ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'TRACKING_TOKEN']);
  });

  test('an Airflow task: two intervals for each month of the past, each after the month before, that know their period', async () => {
    const months = 18;
    await storeSecrets({
      'marketdata-credentials': { MARKET_TOKEN: 'market-of-the-tests' },
      'bucket-credentials': { BUCKET_KEY: 'bucket-of-the-tests' },
    });
    const printed = await type(`
cat > prices.yaml <<'END'
id: prices
cron: ['0 0 1 * *']
overlap: allow
labels: { owner: fintech, marketdata: '', snapshot: '' }
group:
  runs:${snapshotOf('D1')}${snapshotOf('W1')}
END
longshore schedule set -f prices.yaml
longshore schedule backfill prices --from 2025-01-01T00:00:00Z --until 2026-06-30T00:00:00Z
for GROUP in $(longshore group list --schedule prices -n 100 | awk 'NR > 1 { print $1 }'); do longshore group watch $GROUP; done
longshore run list --label owner=fintech --all --columns group.ref,state,attempt,outputs.window_minutes`);
    assert.match(
      printed,
      new RegExp(`^${months} runs created of ${months} times, 0 had one, 0 failed$`, 'm'),
    );
    const lines = printed.split('\n').filter((line) => /^[DW]1 /.test(line));
    assert.equal(lines.length, 2 * months);
    for (const line of lines) assert.match(line, /^[DW]1 +COMPLETED +1 +\d+$/);
    const made = (await readdir(join(store, 'prices'))).toSorted();
    assert.equal(made.length, 2 * months);
    assert.deepEqual(
      [made[0], made.at(-1)],
      ['D1-2025-01-01T00:00:00+00:00', 'W1-2026-06-01T00:00:00+00:00'],
    );
    const february = await readFile(join(store, 'prices', 'W1-2026-03-01T00:00:00+00:00'), 'utf8');
    assert.equal(Number(february), 28 * 24 * 60);
  });

  test('Azure Batch tasks: one for each file of a folder, then one that merges what they found', async () => {
    const names = Array.from({ length: 30 }, (_, n) => `gene-${String(n).padStart(2, '0')}`);
    await writeFile(
      join(store, 'database'),
      names.flatMap((name) => [`${name}: ACGT\n`, `${name}: TGCA\n`]).join(''),
    );
    for (const name of names) await writeFile(join(store, 'queries', `${name}.fasta`), `${name}:\n`);
    const printed = await type(`
{
  echo 'name: blast'
  echo 'max_parallel: 4'
  echo 'array:'
  echo '  inputs:'
  for FILE in "$STORE"/queries/*.fasta; do echo "    - { query: \${FILE##*/} }"; done
  echo '  run: { image: blast, args: ["\${inputs.query}"] }'
} > search.yaml
SEARCH=$(longshore group create -f search.yaml)
cat > merge.yaml <<END
image: merge
inputs: { hits: { \\$from: { group: $SEARCH, output: /hits } } }
END
longshore run create -f merge.yaml --after-group $SEARCH
longshore run create train --after @last --wait --no-logs -- merged`);
    const [, id = ''] = /^(\S{36})$/m.exec(printed) ?? [];
    const run: any = await steps.runs.get(id);
    assert.deepEqual([run.state, run.outputs], ['COMPLETED', { hits: names.map(() => 2) }]);
    const results = await readFile(join(store, 'results.txt'), 'utf8');
    assert.equal(results, await readFile(join(store, 'database'), 'utf8'));
    assert.equal(await readFile(join(store, 'model'), 'utf8'), 'merged\n');
  });
});
