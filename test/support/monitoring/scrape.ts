import assert from 'node:assert/strict';
import type { Send } from '../app/test-app.js';

/** One line of a scrape. */
export interface Sample {
  /** With the suffix of its kind: `x_bucket`, `x_count`. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric as it is announced. */
export interface Announced {
  readonly type: string;
  readonly help: string;
}

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)/gy;

/** What a scrape of the service got. */
export class Scrape {
  readonly samples: readonly Sample[];
  /** By name. */
  readonly announced = new Map<string, Announced>();

  /** @throws AssertionError for a text that is not in Prometheus's format */
  constructor(readonly text: string) {
    const samples: Sample[] = [];
    const help = new Map<string, string>();
    for (const line of text.split('\n')) {
      const [, kind, name = '', words = ''] = /^# (HELP|TYPE) (\w+) (.*)$/.exec(line) ?? [];
      if (kind === 'HELP') help.set(name, words);
      else if (kind === 'TYPE') {
        assert.ok(!this.announced.has(name), `${name} is announced twice`);
        this.announced.set(name, { type: words, help: help.get(name) ?? '' });
      } else if (line !== '') samples.push(readSample(line));
    }
    this.samples = samples;
    const series = samples.map(({ name, labels }) =>
      [
        name,
        ...Object.entries(labels)
          .map((label) => label.join('='))
          .toSorted(),
      ].join(),
    );
    assert.equal(new Set(series).size, series.length, 'a series stands there twice');
  }

  /** Scrapes a service. */
  static async of(send: Send): Promise<Scrape> {
    const { status, text } = await send('GET', '/metrics');
    assert.equal(status, 200, text);
    return new Scrape(text);
  }

  /** The samples of a series that have these labels. */
  find(name: string, labels: Readonly<Record<string, string>> = {}): Sample[] {
    return this.samples.filter(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    );
  }

  /** Their sum; undefined when there is none. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    const found = this.find(name, labels);
    return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0);
  }

  /** By how much counters with a value have grown since an earlier scrape, those that did: `name{a="b"}` to the growth. */
  since(earlier: Scrape, names: readonly string[]): Record<string, number> {
    const before = new Map(earlier.samples.map((sample) => [keyOf(sample), sample.value]));
    const grown: Record<string, number> = {};
    for (const sample of this.samples) {
      if (!names.includes(sample.name)) continue;
      const growth = sample.value - (before.get(keyOf(sample)) ?? 0);
      if (growth !== 0) grown[keyOf(sample)] = growth;
    }
    return grown;
  }
}

function readSample(line: string): Sample {
  const [, name = '', written = '', value = ''] = LINE.exec(line) ?? [];
  assert.notEqual(name, '', `no sample: ${line}`);
  const labels: Record<string, string> = {};
  let end = 0;
  for (const match of written.matchAll(LABEL)) {
    const [whole, label = '', text = ''] = match;
    labels[label] = text.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
    end = match.index + whole.length;
  }
  assert.equal(end, written.length, `labels that cannot be read: ${line}`);
  const number = value === '+Inf' ? Infinity : Number(value === 'Nan' ? NaN : value);
  return { name, labels, value: number };
}

function keyOf({ name, labels }: Sample): string {
  const written = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return written.length === 0 ? name : `${name}{${written.join()}}`;
}
