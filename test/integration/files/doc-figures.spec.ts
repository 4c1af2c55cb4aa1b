import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, test } from 'vitest';
import { DOCUMENTED_LIMITS } from '../../support/docs/documented-limits.js';
import { proseOf, readPages, type DocPage } from '../../support/docs/doc-pages.js';
import { PROJECT } from '../../support/service-process.js';

/** A duration under a minute, a rate or a percentage. */
const FIGURE =
  /(?<![\w.])\d[\d.,]*(?: ?(?:ns|us|µs|ms|s|seconds?|%)(?![\w/])|(?:\/s| per second| a second)\b)/g;

/** Parts of a page that are generated, names of things, and links, which cite a source. */
const NO_STATEMENTS = [
  /<!-- figure: [^>]+ -->[^]*?<!-- end of figure -->/g,
  /<!-- calculated: begin -->[^]*?<!-- calculated: end -->/g,
  /<!-- generated -->[^]*?<!-- end of generated -->/g,
  /`[^`\n]*`/g,
  /\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])/g,
];

/** Pages that are generated as a whole, or describe the past. */
const NOT_CHECKED =
  /^(?:docs\/performance\.md|docs\/run-states\.md|docs\/adr\/.*|CHANGELOG\.md|.*\/CHANGELOG\.md)$/;

/** The first decision whose figures must be in a file of results. */
const FIRST_WITH_RESULTS = 26;

function figuresOf(page: DocPage): string[] {
  const statements = NO_STATEMENTS.reduce((text, part) => text.replaceAll(part, ''), proseOf(page));
  return [...new Set(statements.match(FIGURE))].toSorted();
}

describe('figures in the documentation', () => {
  let pages: DocPage[];
  beforeAll(async () => {
    pages = await readPages();
  });

  test('are limits or settings where no result generates them', () => {
    const found: string[] = [];
    for (const page of pages.filter(({ path }) => !NOT_CHECKED.test(path))) {
      found.push(...figuresOf(page).map((figure) => `${page.path}: ${figure}`));
    }
    const listed = Object.entries(DOCUMENTED_LIMITS).flatMap(([path, figures]) =>
      figures.map((figure) => `${path}: ${figure}`),
    );
    const unlisted = found.filter((figure) => !listed.includes(figure));
    assert.deepEqual(
      unlisted,
      [],
      `bench/README.md says how a page gets measured figures; limits are listed in test/support/docs/documented-limits.ts: ${unlisted.join(', ')}`,
    );
    assert.deepEqual(
      listed.filter((figure) => !found.includes(figure)),
      [],
    );
  });

  test('are found where they are measured', () => {
    const text =
      'A run takes 3.2 ms, 40% of it waiting, at 1,200/s or 5 per second; see [12 ms](x) and `30 s`.';
    assert.deepEqual(figuresOf({ path: 'x.md', text }), ['1,200/s', '3.2 ms', '40%', '5 per second']);
  });

  test('of a decision are beside it as results', () => {
    const missing = pages
      .filter((page) => figuresOf(page).length > 0)
      .map(({ path }) => /^docs\/adr\/(\d{3})-/.exec(path)?.[1])
      .filter((number) => number !== undefined && Number(number) >= FIRST_WITH_RESULTS)
      .filter((number) => !existsSync(join(PROJECT, 'docs', 'adr', 'results', `${number}.json`)));
    assert.deepEqual(missing, []);
  });
});
