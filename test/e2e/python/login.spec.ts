import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import { runPython } from '../../support/programs/python.js';
import { makeDataDir } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

/** A folder of configuration that holds a saved login. */
async function saved(url: string, mode = 0o600): Promise<string> {
  const home = await makeDataDir();
  await mkdir(join(home, 'longshore'));
  const path = join(home, 'longshore', 'config.json');
  await writeFile(path, JSON.stringify({ url, api_key: 'saved-key' }));
  await chmod(path, mode);
  return home;
}

const SHOW = `
import sys
def show(**given):
    try:
        api = Longshore(**given)
        print(api.url, api._key)
    except ConfigurationError as error: print("error:", error)
`;

async function shown(program: string, env: Readonly<Record<string, string>>): Promise<string[]> {
  const { code, stdout, output } = await runPython(SHOW + program, env);
  assert.equal(code, 0, output);
  return stdout.trimEnd().split('\n');
}

describe('the client for Python finds the service and the key', skipFor(whyNoPython()), () => {
  test('in arguments, then in the environment, then in the saved login, as the command line does', async () => {
    const XDG_CONFIG_HOME = await saved('http://saved:1/base/');
    const [whole] = await shown('show()', { XDG_CONFIG_HOME });
    assert.equal(whole, 'http://saved:1/base saved-key');
    const both = { SERVICE_URL: 'http://env:2', SERVICE_API_KEY: 'env-key', XDG_CONFIG_HOME };
    assert.deepEqual(await shown('show(); show(url="HTTP://Arg:80/", key="arg-key")', both), [
      'http://env:2 env-key',
      'http://arg arg-key',
    ]);
    const [keyOnly] = await shown('show()', { SERVICE_API_KEY: 'env-key', XDG_CONFIG_HOME });
    assert.equal(keyOnly, 'http://saved:1/base env-key');
    const [home] = await shown('show()', {
      XDG_CONFIG_HOME: 'relative',
      HOME: await makeDataDir(),
      SERVICE_API_KEY: 'k',
    });
    assert.equal(home, 'http://127.0.0.1:5555 k');
  });

  test('and never uses a saved key for another service', async () => {
    const XDG_CONFIG_HOME = await saved('http://saved:1');
    const [other, same] = await shown('show(url="http://other:1"); show(url="http://SAVED:1/")', {
      XDG_CONFIG_HOME,
    });
    assert.match(other ?? '', /^error: no API key for http:\/\/other:1/);
    assert.equal(same, 'http://saved:1 saved-key');
  });

  test('and refuses a saved login that others can read, keys and URLs that are none', async () => {
    const XDG_CONFIG_HOME = await saved('http://saved:1', 0o640);
    const program = `
show()
show(url="http://a", key="k k")
for url in ("ftp://a", "http://u:p@a", "http://a?b", "http://a#b", "http://a:x", "a", "http://a b"): show(url=url, key="k")`;
    const [readable, key, ...urls] = await shown(program, { XDG_CONFIG_HOME });
    assert.match(readable ?? '', /^error: .*others can read it/);
    assert.equal(key, 'error: an API key has visible ASCII characters only');
    assert.equal(urls.length, 7);
    for (const url of urls) assert.match(url, /^error: the URL of the service must be http/);
  });
});
