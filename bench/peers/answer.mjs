/**
 * Answers the orders of the process that started this one, one at a time, until that process lets go.
 * @param orders by name: a function of the order's options; what it resolves with is the answer
 * @param close called when there will be no more orders
 */
export function answerOrders(orders, close) {
  const answer = async ({ what, options }) => {
    try {
      process.send({ value: await orders[what](options) });
    } catch (error) {
      process.send({ error: error?.stack ?? String(error) });
    }
  };
  process.on('message', (order) => void answer(order));
  process.once('disconnect', () => {
    close()
      .catch(() => undefined)
      .finally(() => process.exit(0));
  });
}

/** What comes first in every round and is not counted, in milliseconds: connections open, statements are prepared. */
export function warmUpMs(seconds) {
  return Math.min(1000, seconds * 500);
}

/**
 * Runs loops side by side for so long, after a warm-up.
 * @param step does something and answers how many it was
 * @returns how many a second all of them did, and how many `units` with the warm-up
 */
export async function loops(count, seconds, step) {
  let began = performance.now() + warmUpMs(seconds);
  const deadline = began + seconds * 1000;
  let done = 0;
  let units = 0;
  const start = setTimeout(() => {
    done = 0;
    began = performance.now();
  }, warmUpMs(seconds));
  await Promise.all(
    Array.from({ length: count }, async (_, n) => {
      while (performance.now() < deadline) {
        const more = await step(n);
        done += more;
        units += more;
      }
    }),
  );
  clearTimeout(start);
  return { perSecond: (done * 1000) / (performance.now() - began), units };
}

/**
 * The settings that do the most, each tried for a moment.
 * @param measure answers `{ perSecond }` for settings
 */
export async function findBest(candidates, measure) {
  let best;
  for (const settings of candidates) {
    const { perSecond } = await measure(settings);
    if (best === undefined || perSecond > best.perSecond) best = { settings, perSecond };
  }
  return best.settings;
}
