import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { PythonService } from '../../support/programs/python.js';
import { makeDataDir, PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

const PACKAGE = join(PROJECT, 'packages', 'python', 'longshore');
const whyNoMypy = spawnSync('mypy', ['--version']).status !== 0 && 'mypy is not installed';

describe('the calls of the client for Python', skipFor(whyNoPython()), () => {
  let service: PythonService;

  beforeAll(async () => {
    service = await PythonService.start(
      () => ({ echo: 'cp "$SERVICE_INPUT_PATH" "$SERVICE_OUTPUT_PATH"', fail: 'exit 3' }),
      { SERVICE_SECRETS_KEY: randomBytes(32).toString('base64') },
    );
  });
  afterAll(() => service.stop());

  test('list runs by filters, page by page as they are needed', async () => {
    const program = `
nobody = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b'
from datetime import datetime, timedelta, timezone
for n in range(3): api.run_image("never", {"n": n}, selector=["a", "b"], labels={"team": "x", "n": str(n)}, name=f"many-{n}")
pages = []
api._object = lambda *args, _ask=api._object, **more: pages.append(args) or _ask(*args, **more)
import longshore.found
longshore.found.PAGE = 2
found = api.list(state="PENDING", label={"team": "x"})
print(next(found).name, len(pages), [run.name for run in found], len(pages))
def count(**filters): return len(list(api.list(image="never", **filters)))
print(count(label="n=1"), count(label=["team=x", "n"]), count(selector=["a", "b"]), count(name_prefix="many-2"))
print(count(created_since=timedelta(hours=1)), count(created_until=timedelta(hours=1)), count(cause="oom", exit_code=3))
print(count(created_since=datetime(2100, 1, 1, tzinfo=timezone.utc)), count(state=None), count(created_by="me"), count(created_by=nobody))
for wrong in ({"stat": "FAILED"}, {"created_since": datetime(2026, 1, 1)}):
    try: list(api.list(**wrong))
    except TypeError as error: print(str(error)[:24])`;
    assert.equal(
      await service.printed(program),
      "many-2 1 ['many-1', 'many-0'] 2\n1 3 3 1\n3 0 0\n0 3 3 0\n'stat' is no filter: the\na time must be a datetim\n",
    );
  });

  test('retry, label, explain and show the events of a run', async () => {
    const program = `
run = api.wait(api.run_image("fail", labels={"draft": "1"}), check=False)
again = api.wait(api.retry(run), check=False)
print(again.attempt, again.state, again.cause, again.exit_code)
labelled = api.label(run, {"team": "x", "draft": None}, name="night")
print(labelled.labels, labelled.name, api.label(run, name="").name, api.label(run).labels)
print(api.explain(run)["state"], len(api.explain(run)["summary"]) > 0)
print([event["type"] for event in api.events(run)], len(list(api.events(run, after=0))) + 1 == len(list(api.events(run))))
follow = api.run_image("echo")
print([event["type"] for event in api.events(follow, follow=True)][-1])
try: api.retry("019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b")
except Refused as refused: print(refused.status)`;
    const [attempt, labels, explained, events, ...rest] = (await service.printed(program)).split('\n');
    assert.equal(attempt, '2 FAILED exit 3');
    assert.equal(labels, "{'team': 'x'} night None {'team': 'x'}");
    assert.equal(explained, 'FAILED True');
    assert.match(events ?? '', /^\[.*'STARTED', 'FAILED', 'RETRIED', 'STARTED', 'FAILED'\] True$/);
    assert.deepEqual(rest, ['COMPLETED', '404', '']);
  });

  test('make a run like another that has ended, of its image or its definition, with changes', async () => {
    const program = `
from decimal import Decimal
options = {"args": ["a"], "env": {"A": "1"}, "labels": {"x": "1", "y": "2"}, "priority": 3, "selector": ["none"], "name": "n",
    "constraints": {"cpu_millis": 500, "ram_mb": 64}, "timeouts": {"attempt_s": 9}, "retry_policy": {"max_attempts": 2},
    "files": {"/etc/a": "text"}, "stop_grace_s": 7, "event_delivery": {"topic": "t", "attributes": {"b": "c"}},
    "concurrency": {"key": "k", "limit": 2}, "outputs": {"o": 1}}
run = api.run_image("echo", {"price": Decimal("0.10"), "n": 10**30}, **options)
try: api.rerun(run)
except Refused as refused: print(refused.status)
api.cancel(run)
again = api.rerun(run, labels={"y": None, "z": "3"}, priority=4, files={"/etc/a": b"\\xff"})
same = {"id", "name", "state", "labels", "priority", "files", "source", "rerun_of", "reruns", "createdAt", "updatedAt", "events"}
print([name for name in run.data if name not in same and name != "execution_summary" and run.data[name] != again.data[name]])
print(again.data["files"], [each.id for each in api.list(rerun_of=run.id)] == [again.id], api.get(run).data["reruns"])
print(again.name, again.labels, again.data["priority"], Longshore(decimals=True).get(again).inputs["price"])
api.apply({"id": "echoes", "version": "1", "image": "echo", "args": ["\${inputs.text}", "b"], "event_delivery": {"topic": "e"},
    "input_specs": {"text": {"type": "string", "required": True}}})
first = api.wait(api.run("echoes", {"text": "a"}, env={"E": "1"}), timeout=300)
api.apply({"id": "echoes", "version": "2", "image": "other"})
second = api.wait(api.rerun(first, inputs={"text": "c"}), timeout=300)
for each in (first, second):
    print(each.data["op_definition_version"], each.data["args"], each.data["env"], each.outputs)
print(api.rerun(first, definition_version="latest", inputs=None).image)
api.delete_definition("echoes", "1")
print(api.rerun(first)._made_of(), api.rerun(first, idempotency_key="r").id == api.rerun(first, idempotency_key="r").id)`;
    assert.equal(
      await service.printed(program),
      "409\n[]\n{'/etc/a': {'content_base64': '/w=='}} True 1\nNone {'x': '1', 'z': '3'} 4 0.10\n" +
        "1 ['a', 'b'] {'E': '1'} {'text': 'a'}\n1 ['c', 'b'] {'E': '1'} {'text': 'c'}\nother\nechoes/1 True\n",
    );
  });

  test('change all runs that filters match, after a look at them, and never more than was meant', async () => {
    const program = `
for n in range(3): api.run_image("never", labels={"bulk": str(n)}, selector=["none"])
look = api.bulk("cancel", label="bulk", dry_run=True)
print(look["matched"], {run.state for run in look["runs"]})
done = api.bulk("labels", {"seen": "yes"}, label="bulk", expect=3)
print(done["state"], done["done"], {run.labels["seen"] for run in api.list(label="bulk")})
started = api.bulk("cancel", label="bulk=0", reason="over", wait=False)
print(sorted(started))
print(api.bulk("retry", label="bulk=1", state="PENDING")["done"], api.bulk("cancel", label="bulk")["matched"])
for wrong in ({"label": None}, {"label": {}}, {"lable": "bulk"}):
    try: api.bulk("cancel", state="PENDING", **wrong)
    except (TypeError, ValueError) as error: print(str(error)[:26])
for refused in ({"expect": 7, "label": "bulk"}, {}):
    try: api.bulk("cancel", **refused)
    except Refused as error: print(error.status)`;
    assert.equal(
      await service.printed(program),
      "3 {'PENDING'}\ndone 3 {'yes'}\n['id', 'matched']\n1 3\n" +
        "the filter label is empty \nthe filter label is empty \n'lable' is no filter: ther\n409\n400\n",
    );
  });

  test('store, list, pause, backfill and delete schedules', async () => {
    const program = `
from datetime import datetime, timedelta, timezone
import longshore.catalog
longshore.catalog.PAGE = 2
for name in ("s1", "s2", "s3"):
    api.set_schedule(name, {"every_s": 86400, "run": {"image": "echo"}})
print([each["id"] for each in api.schedules()])
print(api.pause_schedule("s1", "moving")["paused_note"], api.resume_schedule("s1")["paused"])
now = datetime.now(timezone.utc)
print(api.backfill_schedule("s2", now - timedelta(days=3), now)["created"], len(list(api.fires("s2"))))
print(api.schedule("s2")["counts"]["created"])
api.delete_schedule("s3")
try: api.schedule("s3")
except Refused as refused: print(refused.status)`;
    assert.equal(await service.printed(program), "['s1', 's2', 's3']\nmoving False\n3 3\n3\n404\n");
  });

  test('store, list and delete definitions and secrets', async () => {
    const program = `
import warnings, longshore.catalog
longshore.catalog.PAGE = 2
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for version in ("1", "2", "3"):
        api.apply({"id": "kept", "version": version, "image": "echo", "input_specs": {"n": {"type": "integr"}}})
    print(len(caught), "integr" in str(caught[0].message))
print([each["version"] for each in api.definitions() if each["id"] == "kept"], api.definition("kept")["version"])
api.delete_definition("kept", "2")
print(api.definition("kept", "1")["version"])
api.delete_definition("kept", all=True)
try: api.definition("kept")
except Refused as refused: print(refused.status)
try: api.delete_definition("kept")
except ValueError as error: print(error)
api.set_secret("token", "the value")
api.set_secret("s3", {"USER": "u", "PASSWORD": "p"})
api.set_secret("hub", "p", server="ghcr.io", username="ada")
api.set_secret("keystore", b"\\xff\\0")
print([(each["name"], each["kind"]) for each in api.secrets()])
api.delete_secret("s3")
print([each["name"] for each in api.secrets()])
try: api.delete_secret("s3")
except Refused as refused: print(refused.status)`;
    assert.equal(
      await service.printed(program),
      "3 True\n['1', '2', '3'] 3\n1\n404\nname the version, or give all=True\n" +
        "[('hub', 'registry'), ('keystore', 'opaque'), ('s3', 'map'), ('token', 'opaque')]\n['hub', 'keystore', 'token']\n404\n",
    );
  });

  test('take files of a run as texts, as bytes and as local paths, a program as one', async () => {
    const folder = await makeDataDir();
    await writeFile(join(folder, 'a.txt'), 'ä\r\n');
    await writeFile(join(folder, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 });
    await writeFile(join(folder, 'bytes'), Buffer.from([0xff]));
    const program = `
from pathlib import Path
folder = Path(${JSON.stringify(folder)})
files = {"/a": folder / "a.txt", "/b": folder / "run.sh", "/c": "text", "/d": {"content": "x", "mode": "0400"}}
print(api.get(api.run_image("never", files=files)).data["files"])
files = {"/e": folder / "bytes", "/f": b"a\\0b", "/g": "ü".encode()}
print(api.get(api.run_image("never", files=files)).data["files"])`;
    assert.equal(
      await service.printed(program),
      "{'/a': {'content': 'ä\\r\\n'}, '/b': {'content': '#!/bin/sh\\n', 'mode': '0555'}, '/c': {'content': 'text'}, " +
        "'/d': {'content': 'x', 'mode': '0400'}}\n" +
        "{'/e': {'content_base64': '/w=='}, '/f': {'content_base64': 'YQBi'}, '/g': {'content': 'ü'}}\n",
    );
  });

  test('show a run in a line, and in a notebook as a table of texts', async () => {
    const program = `
run = api.run_image("never", {"text": "<script>" + "x" * 5000, "n": 10**6000 % 7}, name="<b>", selector=["none"])
print(str(run) == repr(run) == f"<Run {run.id} PENDING never '<b>'>")
page = run._repr_html_()
print(len(page) < 1000, "<script>" in page, "&lt;script&gt;xxx" in page, "&lt;b&gt;" in page)
failed = api.wait(api.run_image("fail"), check=False)
print(failed == api.get(failed), repr(failed).replace(failed.id, "ID"))`;
    assert.equal(
      await service.printed(program),
      'True\nTrue False True True\nTrue <Run ID FAILED exit 3 fail>\n',
    );
  });
});

describe('the package for Python', skipFor(whyNoPython()), () => {
  test('has only syntax of Python 3.9, and modules of the standard library', () => {
    const program = `
import ast, pathlib, sys
for path in pathlib.Path(${JSON.stringify(PACKAGE)}).glob("*.py"):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0: names = [node.module]
        for name in names: assert name.split(".")[0] in sys.stdlib_module_names, name
print("ok")`;
    const { stdout, stderr } = spawnSync('python3', ['-c', program]);
    assert.equal(stdout.toString(), 'ok\n', stderr.toString());
  });

  test('has types that mypy --strict takes, also in a program that uses it', skipFor(whyNoMypy), async () => {
    const folder = await makeDataDir();
    const program = join(folder, 'program.py');
    await writeFile(
      program,
      `from concurrent.futures import Future
from longshore import Longshore, Run
api: Longshore = Longshore()
future: "Future[Run]" = api.submit("d", {"n": 1}, priority=2)
for run in api.map("d", [{"n": 1}], name="t-{index}"):
    words: int = len(run.outputs)
wrong: int = api.get("r").id
`,
    );
    const strict = ['--strict', '--python-version', '3.9', '--cache-dir', folder];
    const own = spawnSync('mypy', [...strict, PACKAGE]);
    assert.equal(own.status, 0, own.stdout.toString());
    const env = { ...process.env, MYPYPATH: join(PACKAGE, '..') };
    const used = spawnSync('mypy', [...strict, program], { env, cwd: folder }).stdout.toString();
    assert.match(used, /^program\.py:7: error: Incompatible types in assignment.*\nFound 1 error in 1 file/);
  });
});
