/** A weakness of runc by which a run, or what a client says of it, gets at the host. docs/security.md has the same table. */
export interface KnownWeakness {
  readonly id: string;
  /** The first version that has it; absent: the oldest. */
  readonly since?: string;
  /** The first version without it, of each line of versions that has one, in ascending order. */
  readonly closedBy: readonly string[];
  /** What somebody needs to use it. */
  readonly needs: string;
}

export const KNOWN_WEAKNESSES: readonly KnownWeakness[] = [
  {
    id: 'CVE-2019-5736',
    closedBy: ['1.0.0-rc7'],
    needs: 'an image, or a program that is root in its container',
  },
  {
    id: 'CVE-2019-19921',
    closedBy: ['1.0.0-rc10'],
    needs: 'an image, and two runs at once that share a volume',
  },
  {
    id: 'CVE-2021-30465',
    closedBy: ['1.0.0-rc95'],
    needs: 'two runs at once that share a volume: one exchanges a folder of it for a link',
  },
  {
    id: 'CVE-2023-27561',
    since: '1.0.0-rc95',
    closedBy: ['1.1.5'],
    needs: 'an image, and two runs at once that share a volume',
  },
  {
    id: 'CVE-2024-21626',
    since: '1.0.0-rc93',
    closedBy: ['1.1.12'],
    needs: 'a `workdir`, of the run or of its image',
  },
  {
    id: 'CVE-2025-31133',
    closedBy: ['1.2.8', '1.3.3', '1.4.0-rc.3'],
    needs: 'an image, or two runs at once that share a volume',
  },
  {
    id: 'CVE-2025-52565',
    since: '1.0.0-rc3',
    closedBy: ['1.2.8', '1.3.3', '1.4.0-rc.3'],
    needs: 'a container with a terminal, which runs do not get',
  },
  {
    id: 'CVE-2025-52881',
    closedBy: ['1.2.8', '1.3.3', '1.4.0-rc.3'],
    needs: 'two runs at once that share a volume',
  },
];

/** Major, minor, patch, and the number of a release candidate, which comes before the release. */
type Version = readonly [number, number, number, number];

const FORM = /^v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:[-~]rc\.?([0-9]+))?/;

/**
 * Ids of the weaknesses that a version of runc has by its number. What a distribution has mended in an older version does not
 * show there.
 * @returns null when the text does not begin with a version
 */
export function weaknessesOf(text: string): readonly string[] | null {
  const version = parse(text);
  if (version === null) return null;
  return KNOWN_WEAKNESSES.flatMap(({ id, since, closedBy }) => {
    const first = since === undefined ? null : parse(since);
    if (first !== null && compare(version, first) < 0) return [];
    return isClosed(version, closedBy) ? [] : [id];
  });
}

/** A fix counts in its own line of versions, and the last one in all later lines. */
function isClosed(version: Version, closedBy: readonly string[]): boolean {
  return closedBy.some((text, i) => {
    const fix = parse(text);
    if (fix === null || compare(version, fix) < 0) return false;
    return i === closedBy.length - 1 || (version[0] === fix[0] && version[1] === fix[1]);
  });
}

function parse(text: string): Version | null {
  const [found, major, minor, patch, candidate] = FORM.exec(text.trim()) ?? [];
  if (found === undefined) return null;
  return [
    Number(major),
    Number(minor),
    Number(patch),
    candidate === undefined ? Infinity : Number(candidate),
  ];
}

function compare(a: Version, b: Version): number {
  const at = a.findIndex((part, i) => part !== b[i]);
  return at === -1 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}
