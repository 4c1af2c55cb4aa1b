import type { Node } from '../api/resources.js';

/**
 * The first versions without the known weaknesses by which a run gets at its node, of each line of versions that has one, in ascending
 * order. docs/kubernetes.md has the same table, and says which weaknesses they are. Of container runtimes, what counts is the runc that
 * their releases bring: a node does not tell its version.
 */
const LEAST: Readonly<Record<string, readonly string[]>> = {
  kubelet: ['1.19.15', '1.20.11', '1.21.5', '1.22.2'],
  containerd: ['1.7.29', '2.0.7', '2.1.5', '2.2.0'],
  docker: ['28.5.2', '29.0.0'],
};

/** Major, minor and patch. */
type Version = readonly [number, number, number];

/**
 * Which nodes have versions with known weaknesses, in words; null: none that tells a version of a part that is known.
 */
export function weaknessesOf(nodes: readonly Node[]): string | null {
  const names = new Map<string, string[]>();
  for (const { metadata, status } of nodes) {
    const { kubeletVersion = '', containerRuntimeVersion = '' } = status?.nodeInfo ?? {};
    const old = [`kubelet://${kubeletVersion}`, containerRuntimeVersion].filter(isOld);
    if (old.length === 0) continue;
    const parts = old.map((text) => text.replace('://', ' ')).join(' and ');
    names.set(parts, [...(names.get(parts) ?? []), metadata?.name ?? '']);
  }
  if (names.size === 0) return null;
  const each = [...names]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([parts, [first, ...others]]) => {
      const more = others.length === 0 ? '' : ` and ${others.length} more`;
      return `${parts} of ${first}${more}`;
    });
  return (
    `Nodes have versions with known weaknesses by which a run gets at its node: ${each.join('; ')}. Upgrade them, or check that your ` +
    'distribution has mended them: see docs/kubernetes.md#versions-of-nodes'
  );
}

/** @param text such as `containerd://1.7.2-k3s1` */
function isOld(text: string): boolean {
  const [name = '', told = ''] = text.split('://');
  const [version, least] = [parse(told), LEAST[name]];
  if (version === null || least === undefined) return false;
  // A fix counts in its own line of versions, and the last one in all later lines.
  return !least.some((fixed, index) => {
    const fix = parse(fixed);
    if (fix === null || compare(version, fix) < 0) return false;
    return index === least.length - 1 || (version[0] === fix[0] && version[1] === fix[1]);
  });
}

function parse(text: string): Version | null {
  const [found, major, minor, patch] = /^v?(\d+)\.(\d+)\.(\d+)/.exec(text) ?? [];
  return found === undefined ? null : [Number(major), Number(minor), Number(patch)];
}

function compare(a: Version, b: Version): number {
  const at = a.findIndex((part, index) => part !== b[index]);
  return at === -1 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}
