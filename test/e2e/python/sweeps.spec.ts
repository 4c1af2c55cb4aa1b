import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { PythonService } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';
import { untilFile } from '../../support/workers/worker-process.js';

/** Ends with 3 where the inputs say so, else returns them. */
const ECHO = `
grep -q '"fails": *true' "$SERVICE_INPUT_PATH" && { echo broke; exit 3; }
cp "$SERVICE_INPUT_PATH" "$SERVICE_OUTPUT_PATH"`;

/** Creates three runs of a hundred, and gets Ctrl-C when all three have started. */
const interrupted = (label: string, body: string): string => `
import os, signal, threading
def interrupt():
    started = set()
    for event in api.feed("${label}"):
        started.add(event["run_id"])
        if len(started) == 3: return os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
options = {"at_most": 3, "labels": {"sweep": "${label}"}, "event_delivery": {"topic": "${label}"}}
try:
${body.replaceAll(/^/gm, '    ')}
except KeyboardInterrupt as interrupt: print(interrupt)
print([run.state for run in api.list(label="sweep=${label}")])
api.bulk("cancel", label="sweep=${label}")`;

describe('many runs from Python', skipFor(whyNoPython()), () => {
  let service: PythonService;
  const gate = (): string => service.images.gate('first').path;

  beforeAll(async () => {
    service = await PythonService.start((images) => ({
      echo: ECHO,
      gated: untilFile(images.gate('first').path),
      held: 'exec sleep 600',
    }));
  });
  afterAll(() => service.stop());

  test('have a key each, so that a sweep goes on where it was, and names by a template', async () => {
    const program = `
inputs = [{"n": n} for n in range(3)]
def sweep(inputs):
    runs = api.map_image("echo", inputs, idempotency_key="k", name="trial-{index}-{inputs[n]}")
    return [(run.id, run.name, run.outputs["n"]) for run in runs]
first = sweep(inputs[:2])
whole = sweep(inputs)
print(whole[:2] == first, [each[1:] for each in whole])
print(len(list(api.list(image="echo", name_prefix="trial-"))))
try: list(api.map_image("echo", [{}], name="{inputs[missing]}"))
except KeyError as error: print(error)`;
    assert.equal(
      await service.printed(program),
      "True [('trial-0-0', 0), ('trial-1-1', 1), ('trial-2-2', 2)]\n3\n'missing'\n",
    );
  });

  test('are cancelled at Ctrl-C if that was asked for, and else go on, as the exception tells', async () => {
    const sweep = 'list(api.map_image("held", [{}] * 100, **options))';
    assert.equal(
      await service.printed(interrupted('left', sweep)),
      "3 runs go on; with cancel_on_interrupt=True they would be cancelled\n['RUNNING', 'RUNNING', 'RUNNING']\n",
    );
    const cancelled = "3 runs were cancelled\n['CANCELLED', 'CANCELLED', 'CANCELLED']\n";
    const cancels = sweep.replace('**options', 'cancel_on_interrupt=True, **options');
    assert.equal(await service.printed(interrupted('ended', cancels)), cancelled);
    const body = `
inputs = [{"image": 1}] * 100
with api.map_image("held", inputs, cancel_on_interrupt=True, **options) as sweep:
    threading.Thread(target=next, args=(sweep,), daemon=True).start()
    while True: signal.pause()`;
    assert.equal(await service.printed(interrupted('body', body)), cancelled);
  });

  test('are cancelled when the sweep is told to, also from another thread', async () => {
    const program = `
import threading
def cancel():
    started = set()
    for event in api.feed("told"):
        started.add(event["run_id"])
        if len(started) == 2: return print(sweep.cancel("enough"))
sweep = api.map_image("held", [{}] * 100, at_most=2, in_order=False, event_delivery={"topic": "told"})
thread = threading.Thread(target=cancel)
thread.start()
print(list(sweep))
thread.join()
print([run.summary["cancel_reason"] for run in api.list(topic="told")])`;
    assert.deepEqual(
      new Set((await service.printed(program)).split('\n')),
      new Set(['[]', '2', "['enough', 'enough']", '']),
    );
  });

  test('come as they end', async () => {
    const program = `
import os
gate = ${JSON.stringify(gate())}
slow, fast = api.run_image("gated"), api.run_image("echo")
for run in api.as_completed([slow, fast.id]):
    print(["slow", "fast"][run.id == fast.id])
    open(gate, "w").close()
os.remove(gate)
for run in api.map_image("echo", [{"n": 1}, {"n": 2}], in_order=False): print(run.state)
held = api.run_image("held")
try: list(api.as_completed([held], timeout=0.1))
except TimeoutError: print("timeout")
api.cancel(held)`;
    assert.equal(await service.printed(program), 'fast\nslow\nCOMPLETED\nCOMPLETED\ntimeout\n');
  });

  test('are futures of the standard library, also more than there are threads', async () => {
    const program = `
import concurrent.futures, os, longshore.futures
longshore.futures.THREADS, longshore.futures.FULL_WAIT_S = 2, 1
gate = ${JSON.stringify(gate())}
gated = [api.submit_image("gated") for _ in range(3)]
futures = [api.submit_image("echo", {"n": n, "fails": n == 1}) for n in range(3)]
assert all(isinstance(each, concurrent.futures.Future) for each in futures)
assert not gated[0].cancel() and gated[0].run.state == "PENDING"
done, open_ = concurrent.futures.wait(futures, 600)
print(len(done), len(open_), [each.done() for each in gated])
print([each.result().outputs["n"] for each in (futures[0], futures[2])])
print(type(futures[1].exception()).__name__, futures[1].exception().log)
print(api.submit_image("echo", {"fails": True}, check=False).result().state)
open(gate, "w").close()
print({each.result().state for each in concurrent.futures.as_completed(gated)})
os.remove(gate)
try: api.submit_image("", {})
except Refused as refused: print(refused.status)`;
    assert.equal(
      await service.printed(program),
      "3 0 [False, False, False]\n[0, 2]\nRunFailed ['broke']\nFAILED\n{'COMPLETED'}\n400\n",
    );
  });

  test('fail in processes of a pool with their exceptions, and their clients travel', async () => {
    const program = `
import functools, multiprocessing
def go(client, n): return client.wait(client.run_image("echo", {"n": n, "fails": n == 1})).outputs
def submit(client): return client.submit_image("echo", {"n": 9}).result().outputs
api.submit_image("echo").result()
with multiprocessing.get_context("fork").Pool(2) as pool:
    try: pool.map(functools.partial(go, api), range(3))
    except RunFailed as failed: print(failed.cause, failed.exit_code, failed.log, failed.run.inputs)
    print(pool.map(functools.partial(go, api), [0, 2]), pool.apply(submit, [api]))`;
    assert.equal(
      await service.printed(program),
      "exit 3 ['broke'] {'n': 1, 'fails': True}\n[{'n': 0, 'fails': False}, {'n': 2, 'fails': False}] {'n': 9}\n",
    );
  });

  test('have a progress line on a terminal or when it is asked for, out of the way of what is printed', async () => {
    const program = `
import contextlib, io
class Terminal(io.StringIO):
    def isatty(self): return True
def shown(out, **options):
    with contextlib.redirect_stderr(out):
        for run in api.map_image("echo", [{}, {"fails": True}], check=False, **options): out.write("|")
        list(api.as_completed([run], **options, check=False))
    return out.getvalue()
print(repr(shown(io.StringIO())), repr(shown(Terminal(), progress=False)))
asked = shown(io.StringIO(), progress=True)
print(asked.count("\\n"), "2 of 2 runs ended, 1 of them not completed, 0 going on, 0:" in asked)
terminal = shown(Terminal())
print(all(not each or each.endswith(" \\r") for each in terminal.partition("\\n")[0].split("|")[:-1]))
print("1 of 1 runs ended" in terminal)`;
    assert.equal(await service.printed(program), "'||' '||'\n2 True\nTrue\nTrue\n");
  });
});
