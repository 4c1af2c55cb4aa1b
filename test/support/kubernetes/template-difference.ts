/** What an API server adds to a pod template: defaults, and labels of the Job controller. A recording takes the place of images. */
const NOT_COMPARED: readonly string[] = [
  'image',
  'controller-uid',
  'creationTimestamp',
  'dnsPolicy',
  'imagePullPolicy',
  'job-name',
  'schedulerName',
  'terminationMessagePath',
  'terminationMessagePolicy',
];

/** Where a pod template that was sent differs from one that an API server has completed; null: nowhere. */
export function differenceOf(sent: unknown, completed: unknown, path: string): string | null {
  if (!isObject(sent) || !isObject(completed))
    return sent === completed ? null : `${path} is ${JSON.stringify(sent)}, not ${JSON.stringify(completed)}`;
  for (const field of new Set([...Object.keys(sent), ...Object.keys(completed)])) {
    const [left, right] = [sent, completed].map((one): unknown => Reflect.get(one, field));
    const isDefault = left === undefined && isObject(right) && Object.keys(right).length === 0;
    const difference =
      NOT_COMPARED.includes(field) || isDefault ? null : differenceOf(left, right, `${path}.${field}`);
    if (difference !== null) return difference;
  }
  return null;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
