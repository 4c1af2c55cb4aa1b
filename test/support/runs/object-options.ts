import { numbered } from './run-options.js';

export const SECRET_RULE =
  'must be a name of letters, digits, ".", "_" and "-" that starts with a letter or digit of 1 to 128 characters';
const PATH_FORM =
  'an absolute path of at most 512 characters without control characters, colons and parts that are empty, . or .., ' +
  'not / and not in /longshore, /proc, /sys, /dev';
const PATH_RULE = `must have as name ${PATH_FORM}`;
const SUB_PATH_RULE =
  'mounts[0].sub_path must be a relative path of at most 512 characters without control characters and parts that are empty, . or ..';
const NO_PATHS = ['', 'a', './a', '/', '//a', '/a/', '/a//b', '/a/./b', '/..', '/a/..', '/a\n'].concat([
  '/longshore',
  '/longshore/input.json',
  '/proc/1',
  '/sys',
  '/dev/null',
  '/a:b',
]);
const OVERLAP_RULE = 'must not be, be in or contain another path';
const PREFIX_RULE =
  'secrets_from[1].prefix must be letters, digits and _, not starting with a digit or SERVICE_, of at most 128 characters';

/** What is sent of `secrets_from`, `files` and `mounts`, and what the run or the definition then shows. Absent: the same. */
export const OBJECTS_TAKEN: readonly (readonly [title: string, sent: object, shown?: object])[] = [
  ['no secret with variables', { secrets_from: [] }],
  [
    '20 secrets with variables',
    { secrets_from: numbered(20, 'map').map((secret) => ({ secret, prefix: 'P_' })) },
  ],
  [
    'a secret with variables without a prefix',
    { secrets_from: [{ secret: 's', prefix: null }] },
    { secrets_from: [{ secret: 's' }] },
  ],
  ['an empty prefix', { secrets_from: [{ secret: 's', prefix: '' }] }],
  ['no file', { files: {} }],
  [
    '20 files with all that one may say',
    {
      files: {
        ...Object.fromEntries(numbered(18, '/a/').map((path) => [path, { content: '' }])),
        '/b.c/d-e/ü \u{1F511}"\\$x': { content: '\r\n\t\u0001', mode: '777', env: 'A' },
        '/longshore.json': { secret: 'key', mode: '0000', env: 'B' },
      },
      env: { C: '' },
      secrets: { D: 'd' },
    },
  ],
  ['a path of 512 characters', { files: { [`/${'😀'.repeat(511)}`]: { content: '' } } }],
  [
    'a member of a file that is null',
    { files: { '/a': { content: 'a', secret: null, env: null, mode: null } } },
    { files: { '/a': { content: 'a' } } },
  ],
  ['no mount', { mounts: [] }],
  [
    '20 mounts of all kinds',
    {
      mounts: [
        ...numbered(17, '/a').map((path) => ({ volume: 'v', path })),
        {
          volume: 'v'.repeat(63),
          path: '/b.c/d-e/ü \u{1F511}"\\$x',
          read_only: true,
          sub_path: 'a/..b/$x {y} :é',
        },
        {
          volume: '0-9',
          path: '/longshore.d',
          read_only: false,
          sub_path: `${'x'.repeat(255)}/${'y'.repeat(256)}`,
        },
        { scratch_mb: 2 ** 31 - 1, path: '/abc' },
      ],
      files: { '/ab': { content: '' } },
    },
  ],
  [
    'a member of a mount that is null',
    { mounts: [{ volume: 'v', scratch_mb: null, path: '/a', read_only: null, sub_path: null }] },
    { mounts: [{ volume: 'v', path: '/a' }] },
  ],
];

/** What is refused of them, and the line that says so. */
function refused(
  error: string,
  ...sent: readonly object[]
): (readonly [title: string, sent: object, errors: readonly string[]])[] {
  return sent.map((one) => [JSON.stringify(one).slice(0, 80), one, [error]]);
}

const second = (item: unknown): object => ({ secrets_from: [{ secret: 's' }, item] });
const fileAt = (path: string): object => ({ files: { '/ok': { content: '' }, [path]: { content: '' } } });
const file = (one: unknown): object => ({ files: { '/a': one } });
const mount = (one: unknown): object => ({ mounts: [one] });
const volume = (more: object): object => mount({ volume: 'v', path: '/a', ...more });
const files = (paths: readonly string[], content = ''): object => ({
  files: Object.fromEntries(paths.map((path) => [path, { content }])),
});
const withVariable = (others: object): object => {
  const variable = { '/k': { content: '', env: 'KEY' } };
  return { ...others, files: { ...('files' in others && Object(others.files)), ...variable } };
};

export const OBJECTS_REFUSED: readonly (readonly [title: string, sent: object, errors: readonly string[]])[] =
  [
    ...refused(
      'secrets_from must be a list of at most 20 items',
      ...['s', { secret: 's' }, numbered(21, 'map').map((secret) => ({ secret }))].map((secrets_from) => ({
        secrets_from,
      })),
    ),
    ...refused('secrets_from[1] must be an object', second('s')),
    ...refused('secrets_from[1].secret is required', second({})),
    ...refused('secrets_from[1].x is not a known field', second({ secret: 's', x: 1 })),
    ...refused(`secrets_from[1].secret ${SECRET_RULE}`, second({ secret: '-a' })),
    ...refused(
      PREFIX_RULE,
      ...['1', 'a b', 'SERVICE_', 'A-'].map((prefix) => second({ secret: 's', prefix })),
    ),
    ...refused('files must be an object', { files: 'x' }, { files: [] }),
    ...refused('files must be an object of at most 20 entries', files(numbered(21, '/a'))),
    ...NO_PATHS.flatMap((path) => refused(`files${pathOf(path)} ${PATH_RULE}`, fileAt(path))),
    ...refused(`files["/${'a'.repeat(63)}..."] ${PATH_RULE}`, files([`/${'a'.repeat(512)}`])),
    ...refused('files["/a/b/c/d"] must not be in another path', files(['/a/b', '/a/b/c/d'])),
    ...refused('files["/a"] must be an object', file('text')),
    ...refused(
      'files["/a"] must have either content or secret',
      file({}),
      file({ content: '', secret: 's' }),
    ),
    ...refused('files["/a"].x is not a known field', file({ content: '', x: 1 })),
    ...refused('files["/a"].content must be a string of at most 65536 characters', file({ content: 7 })),
    ...refused('files["/a"].content must have at most 65536 bytes', file({ content: '€'.repeat(21_846) })),
    ...refused(`files["/a"].secret ${SECRET_RULE}`, file({ secret: '-a' })),
    ...refused(
      'files["/a"].env must be letters, digits and _, not starting with a digit or SERVICE_',
      file({ content: '', env: 'SERVICE_X' }),
    ),
    ...refused(
      'files["/a"].mode must be permissions of 3 octal digits, with or without a 0 before them',
      ...['8', '77', '4755', '00444', 'rwx', 292].map((mode) => file({ content: '', mode })),
    ),
    ...refused(
      'files must have at most 262144 bytes of content together',
      files(numbered(5, '/a'), 'x'.repeat(53_000)),
    ),
    ...refused(
      'files["/k"].env must not be in env, in secrets or of another file as well',
      withVariable({ env: { KEY: '' } }),
      withVariable({ secrets: { KEY: 's' } }),
      withVariable({ files: { '/b': { content: '', env: 'KEY' } } }),
    ),
    ...refused(
      'mounts must be a list of at most 20 items',
      ...['x', {}, numbered(21, '/a').map((path) => ({ scratch_mb: 1, path }))].map((mounts) => ({ mounts })),
    ),
    ...refused('mounts[0] must be an object', mount('text')),
    ...refused('mounts[0].path is required', mount({ volume: 'v' })),
    ...refused(
      'mounts[0] must have either volume or scratch_mb',
      mount({ path: '/a' }),
      volume({ scratch_mb: 1 }),
    ),
    ...refused('mounts[0].source is not a known field', volume({ source: '/etc' })),
    ...refused(
      'mounts[0].volume must be a name of 1 to 63 characters of a-z, 0-9 and -, which begins and ends with a letter or a digit',
      ...['/etc', '', 'V', 'a_b', '-a', 'a-', 'v'.repeat(64)].map((name) => volume({ volume: name })),
    ),
    ...refused(
      'mounts[0].scratch_mb must be an integer from 1 to 2147483647',
      ...[0, -1, 1.5, 2 ** 31, '1'].map((size) => mount({ scratch_mb: size, path: '/a' })),
    ),
    ...refused('mounts[0].read_only must be true or false', volume({ read_only: 'yes' })),
    ...refused(
      'mounts[0] must have read_only and sub_path only with volume',
      ...[{ read_only: true }, { read_only: false }, { sub_path: 'a' }].map((more) =>
        mount({ scratch_mb: 1, path: '/a', ...more }),
      ),
    ),
    ...refused(
      `mounts[0].path must be ${PATH_FORM}`,
      ...['a', '/', '/a/', '/a/../b', '/longshore/x', '/proc', '/a:b'].map((path) => volume({ path })),
    ),
    ...refused(
      SUB_PATH_RULE,
      ...['', '/a', 'a/', 'a//b', '.', 'a/..', '..', 'a/./b', 'a\n'].map((sub_path) => volume({ sub_path })),
      ...['x'.repeat(513), `${'x'.repeat(480)}\${run.id}`].map((sub_path) => volume({ sub_path })),
    ),
    ...(
      [
        ['/a', '/a'],
        ['/a', '/a/b'],
        ['/a/b/c', '/a'],
      ] as const
    ).flatMap(([path, other]) => [
      ...refused(`mounts[1].path ${OVERLAP_RULE}`, {
        mounts: [
          { volume: 'v', path },
          { scratch_mb: 1, path: other },
        ],
      }),
      ...refused('mounts[0].path must not be, be in or contain the path of a file', {
        ...volume({ path }),
        ...files([other]),
      }),
    ]),
  ];

/** The path of a key in an error line. */
export function pathOf(name: string): string {
  return /^[A-Za-z_$][\w$-]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}
