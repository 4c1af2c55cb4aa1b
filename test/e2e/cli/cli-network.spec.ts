import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:https';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { Cli } from '../../support/programs/cli.js';
import { runPython } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

const run = promisify(execFile);
const HINT = 'for an own CA, set SSL_CERT_FILE to its certificate';

describe(
  'a service with a certificate of an own CA',
  skipFor(existsSync('/usr/bin/openssl') ? false : 'no openssl'),
  () => {
    let service: Server;
    let url: string;
    let cli: Cli;
    let ca: string;

    beforeAll(async () => {
      cli = await Cli.make({ SERVICE_API_KEY: 'the-key' });
      const openssl = (line: string): Promise<unknown> =>
        run('openssl', line.split(' '), { cwd: cli.folder });
      const newKey = 'req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes';
      await openssl(`${newKey} -x509 -days 2 -subj /CN=own -keyout ca.key -out ca.crt`);
      await openssl(`${newKey} -subj /CN=localhost -keyout server.key -out server.csr`);
      await writeFile(join(cli.folder, 'names'), 'subjectAltName=DNS:localhost\n');
      await openssl(
        'x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt',
      );
      ca = join(cli.folder, 'ca.crt');
      const [cert, key] = await Promise.all(
        ['server.crt', 'server.key'].map((name) => readFile(join(cli.folder, name))),
      );
      service = createServer({ cert, key }, (request, response) => {
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(request.url?.startsWith('/workers') ? '[]' : '{"data":[],"has_more":false}');
      });
      await once(service.listen(0, 'localhost'), 'listening');
      const address = service.address();
      url = `https://localhost:${typeof address === 'object' ? address?.port : ''}`;
    });
    afterAll(() => {
      service.close();
      service.closeAllConnections();
    });

    test('is trusted by the command line with SSL_CERT_FILE, and the error says so at once', async () => {
      const refused = await cli.run('workers', '--url', url);
      assert.equal(refused.code, 3, refused.output);
      assert.ok(refused.stderr.endsWith(`; ${HINT}\n`), refused.stderr);
      const trusted = await cli.shell(`SSL_CERT_FILE=${ca} longshore workers --url ${url}`);
      assert.deepEqual([trusted.code, trusted.stderr], [0, 'no workers\n'], trusted.output);
      const missing = await cli.shell(`SSL_CERT_FILE=/none longshore workers --url ${url}`);
      assert.deepEqual([missing.code, missing.stdout], [2, '']);
      assert.match(missing.stderr, /^longshore: SSL_CERT_FILE cannot be read: ENOENT/);
    });

    test(
      'is trusted by the Python client with SSL_CERT_FILE or context=, which stays in its process',
      skipFor(whyNoPython()),
      async () => {
        const program = `
import pickle, ssl
api = Longshore("${url}", context=ssl.create_default_context(cafile="${ca}"))
print(list(api.list()))
try: pickle.dumps(api)
except ConfigurationError as error: print(error)
try: list(Longshore("${url}").list())
except Unreachable as error: print(error)`;
        const { code, stdout, output } = await runPython(program, { SERVICE_API_KEY: 'k' });
        assert.equal(code, 0, output);
        const [listed, pickled, refused = ''] = stdout.split('\n');
        assert.equal(listed, '[]');
        assert.match(pickled ?? '', /^a client with context= does not travel to another process/);
        assert.ok(refused.endsWith(`; ${HINT}, or give context=`), refused);
        const fromVariable = await runPython(`print(list(Longshore("${url}").list()))`, {
          SERVICE_API_KEY: 'k',
          SSL_CERT_FILE: ca,
        });
        assert.equal(fromVariable.stdout, '[]\n', fromVariable.output);
      },
    );
  },
);

test('the error of a service behind a proxy names the proxy, without its password', async () => {
  const cli = await Cli.make({ SERVICE_API_KEY: 'the-key', HTTP_PROXY: 'http://user:secret@127.0.0.1:9' });
  const { code, stderr } = await cli.run('workers', '--url', 'http://10.1.2.3:5555');
  assert.equal(code, 3, stderr);
  assert.match(
    stderr,
    /^longshore: cannot reach the service at http:\/\/10\.1\.2\.3:5555 through the proxy http:\/\/127\.0\.0\.1:9: /m,
  );
  assert.ok(!stderr.includes('secret'), stderr);
});
