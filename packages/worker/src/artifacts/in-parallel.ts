/**
 * Does work for all. After the first failure the others are stopped, and waited for.
 * @param work begins at once; its signal is aborted when it is to stop
 * @throws the first failure
 */
export async function inParallel<T, R>(
  all: readonly T[],
  signal: AbortSignal,
  work: (one: T, stop: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const failed = new AbortController();
  const stop = AbortSignal.any([signal, failed.signal]);
  const first: unknown[] = [];
  const settled = await Promise.allSettled(
    all.map((one) =>
      work(one, stop).catch((error: unknown) => {
        first.push(error);
        failed.abort(error);
        throw error;
      }),
    ),
  );
  if (first.length > 0) throw first[0];
  return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
}
