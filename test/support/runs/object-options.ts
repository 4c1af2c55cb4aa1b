import { numbered } from './run-options.js';

export const SECRET_RULE =
  'must be a name of letters, digits, ".", "_" and "-" that starts with a letter or digit of 1 to 128 characters';
const PATH_FORM =
  'an absolute path of at most 512 characters without control characters, colons and parts that are empty, . or .., ' +
  'not / and not in /longshore, /proc, /sys, /dev';
const PATH_RULE = `must have as name ${PATH_FORM}`;
const SUB_PATH_RULE =
  'mounts[0].sub_path must be a relative path of at most 512 characters without control characters and parts that are empty, . or ..';
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

/** What is refused of them, and the lines that say so. */
export const OBJECTS_REFUSED: readonly (readonly [title: string, sent: object, errors: readonly string[]])[] =
  [
    ...['s', { secret: 's' }, numbered(21, 'map').map((secret) => ({ secret }))].map(
      (secrets_from) =>
        [
          `secrets_from ${JSON.stringify(secrets_from).slice(0, 20)}`,
          { secrets_from },
          ['secrets_from must be a list of at most 20 items'],
        ] as const,
    ),
    ...(
      [
        ['s', 'secrets_from[1] must be an object'],
        [{}, 'secrets_from[1].secret is required'],
        [{ secret: 's', x: 1 }, 'secrets_from[1].x is not a known field'],
        [{ secret: '-a' }, `secrets_from[1].secret ${SECRET_RULE}`],
        ...['1', 'a b', 'SERVICE_', 'A-'].map((prefix) => [{ secret: 's', prefix }, PREFIX_RULE] as const),
      ] as const
    ).map(
      ([item, problem]) =>
        [
          `${JSON.stringify(item)} of secrets_from`,
          { secrets_from: [{ secret: 's' }, item] },
          [problem],
        ] as const,
    ),
    ...['x', []].map(
      (files) => [`files ${JSON.stringify(files)}`, { files }, ['files must be an object']] as const,
    ),
    [
      '21 files',
      { files: Object.fromEntries(numbered(21, '/a').map((path) => [path, { content: '' }])) },
      ['files must be an object of at most 20 entries'],
    ],
    ...[
      ['', 'a', './a', '/', '//a', '/a/', '/a//b', '/a/./b', '/..', '/a/..', '/a\n'],
      ['/longshore', '/longshore/input.json', '/proc/1', '/sys', '/dev/null', '/a:b'],
    ]
      .flat()
      .map(
        (path) =>
          [
            `a file at ${JSON.stringify(path)}`,
            { files: { '/ok': { content: '' }, [path]: { content: '' } } },
            [`files${pathOf(path)} ${PATH_RULE}`],
          ] as const,
      ),
    [
      'a path of 513 characters',
      { files: { [`/${'a'.repeat(512)}`]: { content: '' } } },
      [`files["/${'a'.repeat(63)}..."] ${PATH_RULE}`],
    ],
    [
      'a file in another one',
      { files: { '/a/b': { content: '' }, '/a/b/c/d': { content: '' } } },
      ['files["/a/b/c/d"] must not be in another path'],
    ],
    ...(
      [
        ['text', 'files["/a"] must be an object'],
        [{}, 'files["/a"] must have either content or secret'],
        [{ content: '', secret: 's' }, 'files["/a"] must have either content or secret'],
        [{ content: '', x: 1 }, 'files["/a"].x is not a known field'],
        [{ content: 7 }, 'files["/a"].content must be a string of at most 65536 characters'],
        [{ content: '€'.repeat(21_846) }, 'files["/a"].content must have at most 65536 bytes'],
        [{ secret: '-a' }, `files["/a"].secret ${SECRET_RULE}`],
        [
          { content: '', env: 'SERVICE_X' },
          'files["/a"].env must be letters, digits and _, not starting with a digit or SERVICE_',
        ],
        ...['8', '77', '4755', '00444', 'rwx', 292].map(
          (mode) =>
            [
              { content: '', mode },
              'files["/a"].mode must be permissions of 3 octal digits, with or without a 0 before them',
            ] as const,
        ),
      ] as const
    ).map(
      ([file, problem]) =>
        [`the file ${JSON.stringify(file).slice(0, 30)}`, { files: { '/a': file } }, [problem]] as const,
    ),
    [
      'more than 256 KiB of files',
      { files: Object.fromEntries(numbered(5, '/a').map((path) => [path, { content: 'x'.repeat(53_000) }])) },
      ['files must have at most 262144 bytes of content together'],
    ],
    ...[
      { env: { KEY: '' } },
      { secrets: { KEY: 's' } },
      { files: { '/b': { content: '', env: 'KEY' } } },
    ].map(
      ({ files, ...others }: { files?: object }) =>
        [
          `a variable of a file that is also in ${Object.keys({ ...others, files }).join()}`,
          { ...others, files: { ...files, '/k': { content: '', env: 'KEY' } } },
          ['files["/k"].env must not be in env, in secrets or of another file as well'],
        ] as const,
    ),
    ...['x', {}, numbered(21, '/a').map((path) => ({ scratch_mb: 1, path }))].map(
      (mounts) =>
        [
          `mounts ${JSON.stringify(mounts).slice(0, 20)}`,
          { mounts },
          ['mounts must be a list of at most 20 items'],
        ] as const,
    ),
    ...(
      [
        ['text', 'mounts[0] must be an object'],
        [{ volume: 'v' }, 'mounts[0].path is required'],
        [{ path: '/a' }, 'mounts[0] must have either volume or scratch_mb'],
        [{ volume: 'v', scratch_mb: 1, path: '/a' }, 'mounts[0] must have either volume or scratch_mb'],
        [{ volume: 'v', path: '/a', source: '/etc' }, 'mounts[0].source is not a known field'],
        ...['/etc', '', 'V', 'a_b', '-a', 'a-', 'v'.repeat(64)].map(
          (volume) =>
            [
              { volume, path: '/a' },
              'mounts[0].volume must be a name of 1 to 63 characters of a-z, 0-9 and -, which begins and ends with a letter or a digit',
            ] as const,
        ),
        ...[0, -1, 1.5, 2 ** 31, '1'].map(
          (size) =>
            [
              { scratch_mb: size, path: '/a' },
              'mounts[0].scratch_mb must be an integer from 1 to 2147483647',
            ] as const,
        ),
        [{ volume: 'v', path: '/a', read_only: 'yes' }, 'mounts[0].read_only must be true or false'],
        ...[{ read_only: true }, { read_only: false }, { sub_path: 'a' }].map(
          (more) =>
            [
              { scratch_mb: 1, path: '/a', ...more },
              'mounts[0] must have read_only and sub_path only with volume',
            ] as const,
        ),
        ...['a', '/', '/a/', '/a/../b', '/longshore/x', '/proc', '/a:b'].map(
          (path) => [{ volume: 'v', path }, `mounts[0].path must be ${PATH_FORM}`] as const,
        ),
        ...[
          '',
          '/a',
          'a/',
          'a//b',
          '.',
          'a/..',
          '..',
          'a/./b',
          'a\n',
          'x'.repeat(513),
          `${'x'.repeat(480)}\${run.id}`,
        ].map((sub_path) => [{ volume: 'v', path: '/a', sub_path }, SUB_PATH_RULE] as const),
      ] as const
    ).map(
      ([mount, problem]) =>
        [`the mount ${JSON.stringify(mount).slice(0, 50)}`, { mounts: [mount] }, [problem]] as const,
    ),
    ...(
      [
        ['/a', '/a'],
        ['/a', '/a/b'],
        ['/a/b/c', '/a'],
      ] as const
    ).flatMap(([first, second]) => [
      [
        `mounts at ${first} and ${second}`,
        {
          mounts: [
            { volume: 'v', path: first },
            { scratch_mb: 1, path: second },
          ],
        },
        [`mounts[1].path ${OVERLAP_RULE}`],
      ] as const,
      [
        `a mount at ${first} and a file at ${second}`,
        { mounts: [{ volume: 'v', path: first }], files: { [second]: { content: '' } } },
        ['mounts[0].path must not be, be in or contain the path of a file'],
      ] as const,
    ]),
  ];

/** The path of a key in an error line. */
export function pathOf(name: string): string {
  return /^[A-Za-z_$][\w$-]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}
