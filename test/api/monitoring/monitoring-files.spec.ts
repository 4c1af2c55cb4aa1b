import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, test } from 'vitest';
import { promisify } from 'node:util';
import { Registry } from 'prom-client';
import { parse } from 'yaml';
import { ClusterMetrics } from '../../../src/bootstrap/cluster/cluster-metrics.js';
import { StoreSweepJob } from '../../../src/files/artifacts/removal/store-sweep.job.js';
import { readExpression } from '../../support/monitoring/promql.js';
import { RawConnection } from '../../support/http/raw-http.js';
import { RawWorker } from '../../support/workers/raw-worker.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { PROJECT, until } from '../../support/service-process.js';
import { KEYS, type TestApp } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- files are looked into whose shape is what is tested */

const DOCKER = join(PROJECT, 'docker');
const SEVERITIES = ['critical', 'warning'];

/** Series and labels that Prometheus adds by itself. */
const OWN_SERIES = ['up'];
const OWN_LABELS = ['instance', 'job'];

const readText = (...path: string[]): Promise<string> => readFile(join(...path), 'utf8');
const readYaml = async (...path: string[]): Promise<any> => parse(await readText(...path));

const run = promisify(execFile);
const promtool = await run('promtool', ['--version']).then(
  () => undefined,
  () => 'promtool is not installed',
);

describe('what is there to watch the service with', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_POOL: 'shared' } });
  let scrape: Scrape;
  let rules: any[];
  let dashboard: any;

  beforeAll(async () => {
    await work(service);
    await collectGarbage(service);
    const alone = await Scrape.of(service.send);
    const registry = service.app.get(Registry, { strict: false });
    const counts = await registry.getMetricsAsJSON();
    const process = { isListening: true, counts, recount: () => Promise.resolve() };
    const together = new Scrape(await new ClusterMetrics(new Set([process])).text());
    const known = new Set(alone.announced.keys());
    const ofSeveral = [...together.announced].filter(([name]) => !known.has(name));
    const lines = together.text
      .split('\n\n')
      .filter((block) => ofSeveral.some(([name]) => block.includes(`# TYPE ${name} `)));
    scrape = new Scrape([alone.text, ...lines].join('\n'));
    const { groups } = await readYaml(DOCKER, 'prometheus', 'alerts.yml');
    rules = groups.flatMap((group: any) => group.rules);
    dashboard = JSON.parse(await readText(DOCKER, 'grafana', 'dashboards', 'longshore.json'));
  });

  /** The panels that show something. */
  const panels = (): any[] => dashboard.panels.filter(({ type }: any) => type !== 'row');

  const expressions = (): string[] => [
    ...rules.map(({ expr }) => expr),
    ...panels().flatMap(({ targets }) =>
      targets.map(({ expr }: any) => expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*')),
    ),
  ];

  test('names no series and no label that a scrape of the service does not have', () => {
    assert.ok(expressions().length > 80);
    for (const text of expressions()) {
      const { selectors, groupings } = readExpression(text);
      assert.ok(selectors.length > 0, text);
      const labels = new Set(OWN_LABELS);
      for (const { metric, matchers } of selectors) {
        if (OWN_SERIES.includes(metric)) continue;
        const samples = scrape.find(metric);
        assert.ok(samples.length > 0, `there is no ${metric}: ${text}`);
        for (const label of samples.flatMap((sample) => Object.keys(sample.labels))) labels.add(label);
        for (const { label, operator, value } of matchers.filter(
          (matcher) => !OWN_LABELS.includes(matcher.label),
        )) {
          assert.ok(
            samples.some((sample) => label in sample.labels),
            `${metric} has no label ${label}: ${text}`,
          );
          if (operator !== '=') continue;
          assert.ok(
            scrape.find(metric, { [label]: value }).length > 0,
            `${metric} is never ${label}=${value}: ${text}`,
          );
        }
      }
      for (const label of groupings) assert.ok(labels.has(label), `nothing has the label ${label}: ${text}`);
    }
  });

  test('asks with each matcher of several values for values that there are', () => {
    const alternatives = expressions().flatMap((text) =>
      readExpression(text).selectors.flatMap(({ metric, matchers }) =>
        matchers.flatMap(({ label, operator, value }) =>
          operator === '=~' && /^[A-Z|]+$/.test(value)
            ? value.split('|').map((one) => ({ metric, label, one }))
            : [],
        ),
      ),
    );
    assert.ok(alternatives.length > 0);
    for (const { metric, label, one } of alternatives) {
      assert.ok(scrape.find(metric, { [label]: one }).length > 0, `${metric} is never ${label}=${one}`);
    }
  });

  test('has every metric of the service in docs/metrics.md, and no other', async () => {
    const page = await readText(PROJECT, 'docs', 'metrics.md');
    const cells = page
      .split('\n')
      .flatMap((line) => (line.startsWith('| `') ? [line.split('|')[1] ?? ''] : []));
    const told = cells.flatMap((cell) =>
      [...cell.matchAll(/`(longshore_\w+)`/g)].map(([, name = '']) => name),
    );
    assert.deepEqual(told.toSorted(), [...scrape.announced.keys()].toSorted());
    const elsewhere = [...page.matchAll(/`(longshore_\w+)`/g)].map(([, name = '']) => name);
    assert.deepEqual(
      elsewhere.filter((name) => !scrape.announced.has(name)),
      [],
    );
  });

  test('has every label of a metric in docs/metrics.md beside it', async () => {
    const page = await readText(PROJECT, 'docs', 'metrics.md');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    for (const [name] of scrape.announced) {
      const [, , labels = ''] =
        rows.find((row) => row.split('|')[1]?.includes(`\`${name}\``))?.split('|') ?? [];
      const known = new Set(
        ['', '_bucket', '_sum', '_count']
          .flatMap((suffix) => scrape.find(name + suffix))
          .flatMap((sample) => Object.keys(sample.labels)),
      );
      known.delete('le');
      for (const label of known) assert.ok(labels.includes(`\`${label}\``), `${name} has the label ${label}`);
    }
  });

  test('announces each metric with a help and a name that says its unit', () => {
    for (const [name, { type, help }] of scrape.announced) {
      assert.ok(help.length > 0, name);
      assert.match(name, /^longshore_[a-z0-9_]+$/);
      // Node's own names end like counters here and there.
      if (name.startsWith('longshore_nodejs_')) continue;
      assert.equal(name.endsWith('_total'), type === 'counter', `${name} is a ${type}`);
      assert.doesNotMatch(name, /_(?:ms|millis|milliseconds|minutes|mb|kb)(?:_|$)/, name);
    }
  });

  test('has rules that say what is wrong, what to look at and how urgent it is', () => {
    assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
    for (const { alert, labels, annotations } of rules) {
      assert.match(alert, /^Longshore[A-Z]/);
      assert.ok(SEVERITIES.includes(labels.severity), alert);
      assert.ok(annotations.summary.length > 10 && annotations.description.length > 40, alert);
      const named = `${annotations.summary} ${annotations.description}`.match(/longshore_\w+/g) ?? [];
      for (const name of named) assert.ok(scrape.announced.has(name), `${alert} names ${name}`);
    }
  });

  test('scrapes the service of the compose file with a key in a header that the service takes', async () => {
    const config = await readYaml(DOCKER, 'prometheus', 'prometheus.yml');
    assert.deepEqual(config.rule_files, ['alerts.yml']);
    const [job] = config.scrape_configs;
    const compose = await readYaml(DOCKER, 'compose.yaml');
    const [host, port] = job.static_configs[0].targets[0].split(':');
    assert.ok(compose.services[host], `there is no ${host} in the compose file`);
    assert.equal(port, '5555');
    const headers = { Authorization: `${job.authorization.type} ${KEYS.metrics}` };
    const { status } = await service.send('GET', job.metrics_path, { key: null, headers });
    assert.equal(status, 200);
    const bare = await service.send('GET', job.metrics_path, { key: null });
    assert.equal(bare.status, 401);
  });

  test('has a dashboard that its provider finds, on the data source that is provided, whose panels are readable', async () => {
    const provisioning = join(DOCKER, 'grafana', 'provisioning');
    const { datasources } = await readYaml(provisioning, 'datasources', 'longshore.yml');
    const { providers } = await readYaml(provisioning, 'dashboards', 'longshore.yml');
    assert.equal(providers[0].options.path, '/var/lib/grafana/dashboards');
    assert.deepEqual(await readdir(join(DOCKER, 'grafana', 'dashboards')), ['longshore.json']);
    const ids = dashboard.panels.map(({ id }: any) => id);
    assert.equal(new Set(ids).size, ids.length);
    for (const { title, description, datasource, targets, fieldConfig } of panels()) {
      assert.ok(description.length > 0, title);
      assert.equal(datasource.uid, datasources[0].uid, title);
      assert.ok(fieldConfig.defaults.unit.length > 0, `${title} has no unit`);
      for (const { expr, legendFormat } of targets) {
        assert.ok(legendFormat.length > 0, `${title} has no legend`);
        assert.match(expr, /instance=~"\$instance"/, title);
        const { groupings } = readExpression(expr.replaceAll('$__rate_interval', '1m'));
        const shown: string[] = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) =>
          String(label),
        );
        assert.deepEqual(shown.toSorted(), groupings.filter((label) => label !== 'le').toSorted(), title);
      }
    }
    const [variable] = dashboard.templating.list;
    assert.deepEqual([variable.name, variable.multi, variable.includeAll], ['instance', true, true]);
  });

  test('shows the key figures in panels that do not overlap', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { x, y, w, h } }: any) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`),
    );
    assert.equal(new Set(cells).size, cells.length);
    assert.ok(cells.every((cell: string) => Number(cell.split(',')[0]) < 24));
  });

  test('metrics pass the checks of promtool, scraped twice at once', skipFor(promtool), async () => {
    for (let n = 0; n < 2; n += 1) {
      const { text } = await service.send('GET', '/metrics');
      assert.doesNotMatch(text, /\bNaN\b/i);
      const check = run('promtool', ['check', 'metrics']);
      check.child.stdin?.end(text);
      assert.equal((await check).stderr, '');
    }
  });

  test('passes the checks of promtool, and its rules fire when they should', skipFor(promtool), async () => {
    const folder = join(DOCKER, 'prometheus');
    await run('promtool', ['check', 'config', '--syntax-only', join(folder, 'prometheus.yml')]);
    await run('promtool', ['check', 'rules', '--lint-fatal', join(folder, 'alerts.yml')]);
    await run('promtool', ['test', 'rules', join(folder, 'alerts.test.yml')]);
  });
});

/** A process that has not yet collected garbage has no durations of it. */
async function collectGarbage({ send }: TestApp): Promise<void> {
  await until(async () => {
    gc?.();
    return (await Scrape.of(send)).find('longshore_nodejs_gc_duration_seconds_sum').length > 0;
  }, 'garbage is collected');
}

/** Has the service do a bit of everything that it counts by labels that come with the work. */
async function work({ app, send, url }: TestApp): Promise<void> {
  await app.get(StoreSweepJob, { strict: false }).runOnce(new Date());
  const worker = await RawWorker.start(send, 'w', 60_000);
  const runs = new RunSteps(send);
  await runs.create({ event_delivery: { topic: 't' } });
  const [id = ''] = await worker.claim();
  await worker.report(id, 1, 'STARTED', { worker_id: 'w' });
  await worker.report(id, 1, 'COMPLETED');
  const connection = await RawConnection.open(Number(new URL(url).port));
  connection.send('no HTTP\r\n\r\n');
  await connection.next();
  connection.destroy();
  worker.end();
}
