import type { JsonObject } from '@longshore/common/json/json-value';

/** What STARTED says of the GPUs of a run; their list where it has several, or has one alone. */
export function gpusPayload(ids: readonly number[], isExclusive: boolean): JsonObject {
  const [first] = ids;
  if (first === undefined) return {};
  return { gpu_id: first, ...((isExclusive || ids.length > 1) && { gpu_ids: [...ids] }) };
}
