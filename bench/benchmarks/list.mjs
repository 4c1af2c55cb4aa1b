import { goalLine } from '../lib/pages/figures.mjs';
import { comparePooled } from '../lib/load/load.mjs';
import { quantile } from '../lib/pages/stats.mjs';
import { SEEDED } from '../seed/seed.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

export const title = 'Lists of runs';
export const about =
  'GET /runs in pages of ten from one client, without events: every filter alone and filters together, frequent and rare ' +
  'values, at the first, the 100th and the 10,000th page, beside 10 k, 1 M and 10 M runs. A rare value has three runs, a ' +
  'rare state a hundred. In each round the list takes turns with the first page of the same list at the smallest size; quantiles ' +
  'are of all requests of a round, and the last figures divide them by those of the first page.';
export const figures = {
  timesP50: { title: 'p50, times the smallest', unit: '' },
  timesP95: { title: 'p95, times the smallest', unit: '' },
  timesP99: { title: 'p99, times the smallest', unit: '' },
};

const SIZES = [10_000, 1_000_000, 10_000_000];
const PAGES = [1, 100, 10_000];
const ROUNDS = 3;
const SPELLS = 2;

/** Of the ratios of all filters and sizes, the goal looks at this quantile: single ones vary with other load. */
const QUANTILE = 0.95;

/** SQL of what a filter looks at, to find where a page begins. */
const FIELDS = {
  image: 'image',
  op_definition: 'definition_id',
  topic: 'topic',
  label: "'team=' || (labels ->> 'team')",
};

const { frequent, rare, apart } = SEEDED;

/** Filters by their names. */
const LISTS = {
  'no filter': {},
  'frequent state': { state: frequent.state },
  'rare state': { state: rare.state },
  'frequent image': { image: frequent.image },
  'rare image': { image: rare.image },
  'frequent definition': { op_definition: frequent.op_definition },
  'rare definition': { op_definition: rare.op_definition },
  'frequent topic': { topic: frequent.topic },
  'rare topic': { topic: rare.topic },
  'frequent label': { label: frequent.label },
  'rare label': { label: rare.label },
  'created[gte]': { 'created[gte]': 1_735_700_000 },
  'created[lt]': { 'created[lt]': 1_760_000_000 },
  'frequent state, rare topic': { state: frequent.state, topic: rare.topic },
  'rare state, frequent image': { state: rare.state, image: frequent.image },
  'rare state, frequent topic': { state: rare.state, topic: frequent.topic },
  'frequent state, frequent image': { state: frequent.state, image: frequent.image },
  'frequent state, created[lt]': { state: frequent.state, 'created[lt]': 1_760_000_000 },
  'frequent image, frequent topic': { image: frequent.image, topic: frequent.topic },
  'frequent image, rare topic': { image: frequent.image, topic: rare.topic },
  'image and topic that never meet': apart,
  'frequent state, frequent label': { state: frequent.state, label: frequent.label },
  'frequent label, rare topic': { label: frequent.label, topic: rare.topic },
};

/** One row for every list, page and size. */
export async function measure({ seconds }) {
  const [least, ...others] = sizesOf(SIZES);
  const smallest = await startSeeded({ finished: least });
  try {
    const rows = await measureLists(smallest, smallest, least, seconds);
    for (const size of others) {
      const service = await startSeeded({ finished: size });
      try {
        rows.push(...(await measureLists(service, smallest, size, seconds)));
      } finally {
        await service.stop();
      }
    }
    return rows;
  } finally {
    await smallest.stop();
  }
}

/** For each page, how much slower the slow lists are, and those by a label than those by a state. */
export function goals(rows) {
  return PAGES.flatMap((page) => {
    const ofPage = rows.filter((row) => row.page === page);
    const toSmallest = ['P50', 'P95'].map((name) => {
      const ratios = ofPage.map((row) => row.figures[`times${name}`].median);
      const goal = `list ${name.toLowerCase()}, page ${page}, 95 % of all filters and sizes, against page 1 at the smallest`;
      return goalLine(goal, quantile(ratios, QUANTILE), { atMost: 1.5 });
    });
    const p50Of = (name, size) =>
      ofPage.find((row) => row.name === name && row.size === size)?.figures.p50.median;
    const toState = ofPage
      .filter(({ name }) => LISTS[name].label !== undefined && LISTS[name].topic === undefined)
      .map(({ name, size }) => p50Of(name, size) / p50Of('frequent state', size));
    const goal = `list p50, page ${page}, the slowest by a label, against a frequent state`;
    return [...toSmallest, goalLine(goal, Math.max(...toState), { atMost: 1.5 })];
  });
}

async function measureLists(service, smallest, size, seconds) {
  const rows = [];
  for (const [name, filter] of Object.entries(LISTS)) {
    for (const page of PAGES) {
      const path = await findPath(service, filter, page);
      if (path === null) continue;
      const load = { scenario: 'read', clients: 1, seconds: Math.max(seconds / 16, 0.25) };
      const first = await findPath(smallest, filter, 1);
      const compared = await comparePooled(
        { url: service.url, load: { ...load, options: { path } } },
        { url: smallest.url, load: { ...load, options: { path: first } } },
        { rounds: ROUNDS, spells: SPELLS },
      );
      const rounds = compared.map((round) => round.figures);
      rows.push({ label: `${name}, page ${page}, ${inWords(size)}`, name, page, size, rounds });
    }
  }
  return rows;
}

/** The path of a page, or null where the list is not that long. */
async function findPath(service, filter, page) {
  const query = new URLSearchParams({ ...filter, include_events: 'false' });
  if (page > 1) {
    const fields = Object.entries(filter)
      .filter(([name]) => name in FIELDS)
      .slice(-1);
    // The runs of one state and one field: where a page of that would lie.
    const conditions = fields.map(([name], i) => `${FIELDS[name]} = $${i + 3}`);
    if (fields.length === 0) conditions.push('max_attempts > 0');
    if (filter['created[lt]']) conditions.push(`created_at < to_timestamp(${filter['created[lt]']})`);
    const [place] = await service.query(
      `select id from runs where outcome = $2 and ${conditions.join(' and ')}
        order by created_at desc, id desc offset $1 limit 1`,
      [(page - 1) * 10 - 1, filter.state ?? frequent.state, ...fields.map(([, value]) => value)],
    );
    if (!place) return null;
    query.set('starting_after', place.id);
  }
  return `/runs?${query}`;
}
