import { useTestApp } from '../../support/app/use-test-app.js';
import { each, testRefusals, type Refusal } from '../../support/runs/refusals.js';
import { numbered, SECRET_RULE, variables } from '../../support/runs/numbered-texts.js';
import { describe } from 'vitest';

const KIB_32 = 32 * 1024;
const RESERVED = [
  'SERVICE_INPUT_PATH',
  'SERVICE_OUTPUT_PATH',
  'SERVICE_RUN_ID',
  'SERVICE_RUN_ATTEMPT',
  'SERVICE_CPU',
  'SERVICE_RAM_MB',
  'SERVICE_SCHEDULED_FOR',
  'SERVICE_ARRAY_INDEX',
  'SERVICE_ARRAY_SIZE',
  'SERVICE_FILES_ROOT',
];
const VARIABLE_FORM = `letters, digits, "_", "-" and ".", not starting with a digit, and none of ${RESERVED.join(', ')}`;
const NAME_FORM =
  'must be a name of 1 to 63 characters of a-z, 0-9 and -, which begins and ends with a letter or a digit';
const PATH_FORM =
  'an absolute path of at most 512 characters without control characters, colons and parts that are empty, . or .., ' +
  'not / and not in /longshore, /proc, /sys, /dev';
const WORKDIR_RULE = `workdir must be ${PATH_FORM.replace('not / and ', '')}`;
const SUB_PATH_RULE =
  'mounts[0].sub_path must be a relative path of at most 512 characters without control characters and parts that are empty, . or ..';
const EITHER_MOUNT = 'mounts[0] must have either volume or scratch_mb';

const file = (member: object | string) => ({ files: { '/a': member } });
const mount = (item: object | string) => ({ mounts: [item] });
const volume = (member: object) => mount({ volume: 'v', path: '/a', ...member });

/** Options that say what a worker executes, and where. */
const REFUSED: readonly Refusal[] = [
  ...each('env must be an object', (env) => ({ env }), [[], 'A=1', 1]),
  ...(['env', 'secrets'] as const).flatMap((field) =>
    each(
      (name) => `${field}${pathOf(name)} must have as name ${VARIABLE_FORM}`,
      (name) => ({ [field]: { OK: 'ok', [name]: 'x' } }),
      ['', '1A', 'A/B', 'Ä', ...RESERVED, 'A B', 'A=', 'A\n'],
    ),
  ),
  [
    { env: { '1A': 'x', 'discovery.type': 'y', 'A B': 'z' } },
    [`env["1A"], env["A B"] must have as name ${VARIABLE_FORM}`],
  ],
  ...each('env.A must be a string', (A) => ({ env: { A } }), [1, true, null, ['x'], {}]),
  [{ env: variables(101) }, ['env must be an object of at most 100 entries']],
  ...each(`env must have at most ${KIB_32} bytes of names and values`, (env) => ({ env }), [
    { A: 'x'.repeat(KIB_32) },
    { Abc: '€'.repeat((KIB_32 - 2) / 3) },
  ]),
  ...['command', 'args'].flatMap((field) =>
    each(
      `${field} must be a list of at most 100 items, each a string of at most 4096 characters`,
      (value) => ({ [field]: value }),
      ['x', [1], [null], Array(101).fill(''), ['x'.repeat(4097)]],
    ),
  ),
  ...['', '-a', '.', 'a b', 'a/b', 's'.repeat(129)].flatMap((name): Refusal[] => [
    [{ secrets: { A: name } }, [`secrets.A ${SECRET_RULE}`]],
    [{ image_pull_secret: name }, [`image_pull_secret ${SECRET_RULE}`]],
  ]),
  [{ secrets: variables(101, 'name') }, ['secrets must be an object of at most 100 entries']],
  [{ env: { A: '1', B: '2' }, secrets: { C: 's', B: 's' } }, ['secrets.B must not be in env as well']],
  ...each('workdir must be an absolute path of at most 512 characters', (workdir) => ({ workdir }), [
    '',
    'work',
    './work',
    '/a\nb',
    `/${'a'.repeat(512)}`,
    1,
  ]),
  ...each(WORKDIR_RULE, (workdir) => ({ workdir }), [
    '/proc/self/fd/7',
    '/dev',
    '/sys/x',
    '/longshore',
    '/a/../b',
    '/a/./b',
    '//a',
    '/a/',
    '/a:b',
  ]),
  ...each(
    'user must be the number of a user, or those of a user and a group as 1000:1000',
    (user) => ({ user }),
    ['', 'root', '01', '1:', ':1', '1:2:3', '-1', '10000000000', 1000],
  ),
  ...each('user must have numbers of at most 2147483647', (user) => ({ user }), [
    '2147483648',
    '0:9999999999',
  ]),
  ...each(`network ${NAME_FORM}`, (network) => ({ network }), [
    '',
    'A',
    '-a',
    'a-',
    'a_b',
    'a'.repeat(64),
    1,
  ]),
  [{ network: 'host' }, ['network must not be host']],
  ...each('ulimits must be an object', (ulimits) => ({ ulimits }), ['nofile=1', ['nofile'], 7]),
  [{ ulimits: { nproc: 1 } }, ['ulimits.nproc is not a known field']],
  ...each('ulimits.nofile must be an integer from 1 to 1073741824', (nofile) => ({ ulimits: { nofile } }), [
    -1,
    0,
    1.5,
    '65536',
    '1:2',
    2 ** 30 + 1,
  ]),
  ...each(
    'ulimits.memlock must be an integer from -1 to 1099511627776',
    (memlock) => ({ ulimits: { memlock } }),
    [-2, 'unlimited', 2 ** 40 + 1],
  ),
  ...each('stop_grace_s must be an integer from 0 to 3600', (stop_grace_s) => ({ stop_grace_s }), [
    -1,
    3601,
    0.5,
    '10',
  ]),
  ...each(
    'selector must be a list of at most 20 items, each a string without control characters of 1 to 128 characters',
    (selector) => ({ selector }),
    ['gpu', [''], [1], ['x'.repeat(129)], numbered(21, 'tag')],
  ),
  [{ concurrency: 'k' }, ['concurrency must be an object']],
  [{ concurrency: { limit: 1 } }, ['concurrency.key is required']],
  [{ concurrency: { key: 'k' } }, ['concurrency.limit is required']],
  [
    { concurrency: { key: 'k', limit: 1, on_limit: 'drop' } },
    ['concurrency.on_limit must be one of queue, skip, cancel_oldest'],
  ],
  [{ concurrency: { key: 'k', limit: 1, x: 1 } }, ['concurrency.x is not a known field']],
  ...each(
    'concurrency.key must be a string without control characters of 1 to 255 characters',
    (key) => ({ concurrency: { key, limit: 1 } }),
    ['', 'k'.repeat(256), 'a\n', '\u007f', 5],
  ),
  ...each(
    'concurrency.limit must be an integer from 1 to 10000',
    (limit) => ({ concurrency: { key: 'k', limit } }),
    [0, -1, 10_001, 1.5, '1'],
  ),

  ...each('secrets_from must be a list of at most 20 items', (secrets_from) => ({ secrets_from }), [
    's',
    { secret: 's' },
    numbered(21, 'map').map((secret) => ({ secret })),
  ]),
  ...(
    [
      ['s', ' must be an object'],
      [{}, '.secret is required'],
      [{ secret: 's', x: 1 }, '.x is not a known field'],
      [{ secret: '-a' }, `.secret ${SECRET_RULE}`],
      ...['1', 'a b', 'A/'].map(
        (prefix) =>
          [
            { secret: 's', prefix },
            '.prefix must be letters, digits, "_", "-" and ".", not starting with a digit, of at most 128 characters',
          ] as const,
      ),
    ] as const
  ).map(([item, problem]): Refusal => [
    { secrets_from: [{ secret: 's' }, item] },
    [`secrets_from[1]${problem}`],
  ]),

  ...each('files must be an object', (files) => ({ files }), ['x', []]),
  [{ files: filesAt(numbered(21, '/a')) }, ['files must be an object of at most 20 entries']],
  ...each(
    (path) => `files${pathOf(path)} must have as name ${PATH_FORM}`,
    (path) => ({ files: filesAt(['/ok', path]) }),
    [
      ['', 'a', './a', '/', '//a', '/a/', '/a//b', '/a/./b', '/..', '/a/..', '/a\n'],
      ['/longshore', '/longshore/input.json', '/proc/1', '/sys', '/dev/null', '/a:b'],
    ].flat(),
  ),
  [
    { files: filesAt([`/${'a'.repeat(512)}`]) },
    [`files["/${'a'.repeat(63)}..."] must have as name ${PATH_FORM}`],
  ],
  [{ files: filesAt(['/a/b', '/a/b/c/d']) }, ['files["/a/b/c/d"] must not be in another path']],
  ...each('files["/a"] must have one of content, content_base64 and secret', file, [
    {},
    { content: '', secret: 's' },
    { content: '', content_base64: '' },
    { content_base64: '', secret: 's' },
  ]),
  ...each(
    'files["/a"].content_base64 must be base64 with padding and without line breaks',
    (base64) => file({ content_base64: base64 }),
    ['a', 'YQ', 'YQ=', 'YR==', 'YQ==\n', 'Y Q==', 'YQ==YQ==', '_-8=', 'ü', 'YWJj!'],
  ),
  [file({ content_base64: 7 }), ['files["/a"].content_base64 must be a string of at most 87384 characters']],
  [
    file({ content_base64: Buffer.alloc(65_537).toString('base64') }),
    ['files["/a"].content_base64 must have at most 65536 bytes'],
  ],
  [file('text'), ['files["/a"] must be an object']],
  [file({ content: '', x: 1 }), ['files["/a"].x is not a known field']],
  [file({ content: 7 }), ['files["/a"].content must be a string of at most 65536 characters']],
  [file({ content: '€'.repeat(21_846) }), ['files["/a"].content must have at most 65536 bytes']],
  [file({ secret: '-a' }), [`files["/a"].secret ${SECRET_RULE}`]],
  [file({ content: '', env: 'SERVICE_CPU' }), [`files["/a"].env must be ${VARIABLE_FORM}`]],
  ...each(
    'files["/a"].mode must be permissions of 3 octal digits, with or without a 0 before them',
    (mode) => file({ content: '', mode }),
    ['8', '77', '4755', '00444', 'rwx', 292],
  ),
  [
    { files: filesAt(numbered(5, '/a'), 'x'.repeat(53_000)) },
    ['files must have at most 262144 bytes of content together'],
  ],
  [
    {
      files: {
        ...filesAt(numbered(3, '/a'), 'x'.repeat(65_536)),
        '/b': { content_base64: Buffer.alloc(65_536).toString('base64') },
        '/c': { content_base64: 'AA==' },
      },
    },
    ['files must have at most 262144 bytes of content together'],
  ],
  ...[{ env: { KEY: '' } }, { secrets: { KEY: 's' } }, { files: { '/b': { content: '', env: 'KEY' } } }].map(
    ({ files, ...others }: { files?: object }): Refusal => [
      { ...others, files: { ...files, '/k': { content: '', env: 'KEY' } } },
      ['files["/k"].env must not be in env, in secrets or of another file as well'],
    ],
  ),

  ...each('mounts must be a list of at most 20 items', (mounts) => ({ mounts }), [
    'x',
    {},
    numbered(21, '/a').map((path) => ({ scratch_mb: 1, path })),
  ]),
  [mount('text'), ['mounts[0] must be an object']],
  [mount({ volume: 'v' }), ['mounts[0].path is required']],
  ...each(EITHER_MOUNT, mount, [{ path: '/a' }, { volume: 'v', scratch_mb: 1, path: '/a' }]),
  [volume({ source: '/etc' }), ['mounts[0].source is not a known field']],
  ...each(`mounts[0].volume ${NAME_FORM}`, (name) => volume({ volume: name }), [
    '/etc',
    '',
    'V',
    'a_b',
    '-a',
    'a-',
    'v'.repeat(64),
  ]),
  ...each(
    'mounts[0].scratch_mb must be an integer from 1 to 2147483647',
    (scratch_mb) => mount({ scratch_mb, path: '/a' }),
    [0, -1, 1.5, 2 ** 31, '1'],
  ),
  [volume({ read_only: 'yes' }), ['mounts[0].read_only must be true or false']],
  ...each(
    'mounts[0] must have read_only and sub_path only with volume',
    (more) => mount({ scratch_mb: 1, path: '/a', ...more }),
    [{ read_only: true }, { read_only: false }, { sub_path: 'a' }],
  ),
  ...each(`mounts[0].path must be ${PATH_FORM}`, (path) => volume({ path }), [
    'a',
    '/',
    '/a/',
    '/a/../b',
    '/longshore/x',
    '/proc',
    '/a:b',
  ]),
  ...each(
    SUB_PATH_RULE,
    (sub_path) => volume({ sub_path }),
    [
      ['', '/a', 'a/', 'a//b', '.', 'a/..'],
      ['..', 'a/./b', 'a\n', 'x'.repeat(513), `${'x'.repeat(480)}\${run.id}`],
    ].flat(),
  ),
  ...[['/a', '/a'] as const, ['/a', '/a/b'] as const, ['/a/b/c', '/a'] as const].flatMap(
    ([first, second]): Refusal[] => [
      [
        {
          mounts: [
            { volume: 'v', path: first },
            { scratch_mb: 1, path: second },
          ],
        },
        ['mounts[1].path must not be, be in or contain another path'],
      ],
      [
        { ...volume({ path: first }), files: filesAt([second]) },
        ['mounts[0].path must not be, be in or contain the path of a file'],
      ],
    ],
  ),
];

describe('the options of a run', () => {
  testRefusals(useTestApp(), REFUSED);
});

function filesAt(paths: readonly string[], content = ''): object {
  return Object.fromEntries(paths.map((path) => [path, { content }]));
}

/** The path of a key in an error line. */
function pathOf(name: string): string {
  return /^[A-Za-z_$][\w$-]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}
