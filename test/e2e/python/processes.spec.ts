import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { runPython } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

const URL = 'http://127.0.0.1:1';

async function printed(program: string, env: Readonly<Record<string, string>>): Promise<string> {
  const { code, stdout, output } = await runPython(`import copy, pickle\n${program}`, env);
  assert.equal(code, 0, output);
  return stdout;
}

describe('between processes', skipFor(whyNoPython()), () => {
  test('every exception of the module comes back whole from pickle and copy', async () => {
    const program = `
import longshore
run = Run({"id": "r-1", "execution_summary": {"cause": "exit", "exit_code": 3, "error_message": "broke", "cancel_reason": "no"}})
errors = [
    LongshoreError("text"), ConfigurationError("text"), Unreachable("text"),
    Refused(404, "not found", ["a", "b"]), RunFailed(run, ["last", "words"]), RunCancelled(run),
]
there = {each for each in vars(longshore).values() if isinstance(each, type) and issubclass(each, BaseException)}
assert there == set(map(type, errors)), there
for error in errors:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for back in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
            assert type(back) is type(error) and str(back) == str(error) and vars(back) == vars(error), error
print(*map(str, errors[3:]), sep="\\n")`;
    assert.equal(
      await printed(program, {}),
      '404: not found; a; b\n' +
        'run r-1 failed (exit, exit code 3): broke\n  | last\n  | words\n' +
        'run r-1 was cancelled: no\n',
    );
  });

  test('a client has its key from the environment or the login there, never in the bytes', async () => {
    const program = `
import os
api = Longshore(decimals=True, patience=7)
packed = pickle.dumps(api)
assert b"the-key" not in packed
os.environ["SERVICE_API_KEY"] = "other-key"
os.environ["SERVICE_URL"] = "http://other:2"
there = pickle.loads(packed)
try: there.get("r-1")
except Unreachable as error: print(error)
print(there._key, there._decimals, there._patience)
del os.environ["SERVICE_API_KEY"]
try: pickle.loads(packed).get("r-1")
except ConfigurationError as error: print(error)`;
    const env = { SERVICE_URL: URL, SERVICE_API_KEY: 'the-key', HOME: '/nonexistent' };
    const [unreachable, settings, ...error] = (await printed(program, env)).split('\n');
    assert.match(unreachable ?? '', /^cannot reach the service at http:\/\/127\.0\.0\.1:1:/);
    assert.equal(settings, 'other-key True 7');
    assert.match(error.join(''), /^no API key for http:\/\/127\.0\.0\.1:1: run "longshore login"/);
  });

  test('a client with a key of its own says why it does not travel', async () => {
    const program = `
try: pickle.dumps(Longshore(key="its-own"))
except ConfigurationError as error: print(error)
pickle.dumps(Longshore(key="the-key"))`;
    assert.equal(
      await printed(program, { SERVICE_URL: URL, SERVICE_API_KEY: 'the-key' }),
      'a client with key= does not travel to another process, because its key would: ' +
        'set SERVICE_API_KEY or run "longshore login", and leave key= out\n',
    );
  });
});
