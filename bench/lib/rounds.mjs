/** How often everything is measured. */
export const ROUNDS = 3;

/**
 * Measures subjects in turn, after one warm-up of each, so that what else the machine does meets all of them. Every second
 * round has the reverse order: what one subject leaves behind, such as WAL to be written, affects the next one.
 * @param subjects each `{ label, round(), warmUp() }` and whatever else its row is to carry; a round answers figures
 * @returns one row a subject, `{ label, ..., rounds }`
 */
export async function inTurn(subjects, rounds = ROUNDS) {
  const rows = subjects.map(({ round, warmUp, ...row }) => ({ row: { ...row, rounds: [] }, round, warmUp }));
  for (const { warmUp } of rows) await warmUp?.();
  for (let n = 0; n < rounds; n += 1) {
    const order = n % 2 === 0 ? rows : rows.toReversed();
    for (const { row, round } of order) row.rounds.push(await round());
  }
  return rows.map(({ row }) => row);
}

/** Does something with what is open and closes all of it afterwards, the last first, whatever happens. */
export async function withOpen(use) {
  const opened = [];
  const keep = async (opening) => {
    const resource = await opening;
    opened.push(resource);
    return resource;
  };
  try {
    return await use(keep);
  } finally {
    for (const resource of opened.toReversed()) await resource.stop();
  }
}
