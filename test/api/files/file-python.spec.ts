import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { until } from '../../support/app/passing-time.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { withClient } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

describe('files from Python', skipFor(whyNoPython()), () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-files-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const printed = (program: string): Promise<string> =>
    withClient(service.url, `from pathlib import Path\nhere = Path(${JSON.stringify(folder)})\n${program}`, {
      SERVICE_API_KEY: KEYS.admin,
    });

  test('go in, a folder that has not changed once, and come out as they were left', async () => {
    for (const [name, content] of Object.entries({
      'src/main.py': 'print(1)',
      'src/.git/HEAD': '',
      'src/a.log': '',
      'src/keep/b.log': '',
      'src/.dockerignore': '*.log\nkeep\n!keep/b.log\n',
      'x.csv': 'a,b\n',
    })) {
      await mkdir(join(folder, name, '..'), { recursive: true });
      await writeFile(join(folder, name), content);
    }
    const ids = await printed(`
import os
files = {"/data/x.csv": here / "x.csv", "/app": here / "src"}
run = api.run_image("i", in_files=files, out_files={"model": "/out/model", "plots": {"path": "/out/*.png"}}, artifacts={"out": {"o": {"path": "/o"}}})
os.utime(here / "src/main.py", (1, 1))
again = api.run_image("i", in_files={**files, "/m": {"file": run.data["artifacts"]["in"]["/app"]["file"]}}, selector=["none"])
print(run.id)
print(run.data["artifacts"]["out"])
print(all(again.data["artifacts"]["in"][path] == source for path, source in run.data["artifacts"]["in"].items()))`);
    const [id = '', out, isSame] = ids.split('\n');
    assert.equal(
      out,
      "{'o': {'path': '/o'}, 'model': {'path': '/out/model'}, 'plots': {'path': '/out/*.png'}}",
    );
    assert.equal(isSame, 'True');
    const [model, plot] = [randomBytes(100_000), randomBytes(10)];
    const op = await files.execute({ model, 'plots/a.png': plot });
    const { '/data/x.csv': csv, '/app': app } = op.artifacts.in;
    assert.equal(await (await fetch(csv.get.url)).text(), 'a,b\n');
    const archive = Buffer.from(await (await fetch(app.get.url)).arrayBuffer());
    const names = execFileSync('tar', ['-tz'], { input: archive, encoding: 'utf8' });
    assert.equal(names, '.dockerignore\nkeep/\nkeep/b.log\nmain.py\n');

    const fetched = await printed(`
run = api.get("${id}")
print([str(path.relative_to(here)) for path in run.download("plots", to=here / "results")])
print([str(path.relative_to(here)) for path in api.download(run, to=here / "results")])
import pickle
for wrong in (lambda: run.download("modell"), pickle.loads(pickle.dumps(run)).download):
    try: wrong()
    except ValueError as error: print(error)`);
    assert.equal(
      fetched,
      "['results/plots/a.png']\n['results/model', 'results/plots/a.png']\n" +
        "the run has left no file 'modell'; it has left model, plots/a.png\n" +
        'the run came from another process: use download of a client\n',
    );
    assert.deepEqual(await readFile(join(folder, 'results/model')), model);
    assert.deepEqual(await readFile(join(folder, 'results/plots/a.png')), plot);

    await writeFile(join(folder, 'z.bin'), randomBytes(2_000_000));
    const told = await printed(`
import io, os, sys
os.environ["COLUMNS"] = "30"
class Screen(io.StringIO):
    def isatty(self): return True
def told(call, out):
    sys.stderr, before = out, sys.stderr
    try: call()
    finally: sys.stderr = before
    return out.getvalue()
get = lambda to, **more: lambda: api.download("${id}", "model", to=here / to, **more)
print(repr(told(get("told"), Screen())))
print(repr(told(get("silent", progress=False), Screen()) + told(get("plain"), io.StringIO())))
print(repr(told(lambda: api.run_image("i", in_files={"/z": here / "z.bin"}, selector=["none"]), Screen()).split("\\r")[1]))`);
    assert.equal(
      told,
      "'\\r100 % of 0.1 MB  fetched: mod\\r                             \\r'\n''\n' 52 % of 2.0 MB  sent: z.bin'\n",
    );

    const resumed = await printed(`
import longshore.files as module
ranges, breaks = [], [1000, 2000]
class Broken(module._Exchange):
    def __init__(self, method, url, headers, tls, body=None):
        ranges.append(headers.get("Range"))
        super().__init__(method, url, headers, tls, body)
    def __enter__(self):
        answer = super().__enter__()
        real, left = answer.read, breaks.pop(0) if breaks else None
        def read(size):
            nonlocal left
            if left is None: return real(size)
            if left == 0: raise ConnectionResetError("broken off")
            found, left = real(left), 0
            return found
        answer.read = read
        return answer
module._Exchange = Broken
api.download("${id}", "model", to=here / "resumed")
print(ranges)
api.download("${id}", "model", to=here / "resumed")
print(len(ranges), len((here / "resumed/model").read_bytes()), [path.name for path in (here / "resumed").iterdir()])`);
    assert.equal(resumed, "[None, 'bytes=1000-', 'bytes=3000-']\n3 100000 ['model']\n");
  });

  test('go in with pipelines, schedules and definitions, as of runs', async () => {
    await writeFile(join(folder, 'y.csv'), 'c,d\n');
    const told = await printed(`
both = {"image": "i", "in_files": {"/y": here / "y.csv"}, "out_files": {"m": "/m"}}
source = api.apply({"id": "py", "version": "1", **both})["artifacts"]["in"]["/y"]
found = [
    api.set_schedule("py", {"every_s": 60, "run": both})["run"],
    api.set_schedule("py", {"every_s": 60, "group": {"runs": [{"ref": "a", **both}]}})["group"]["runs"][0],
    api.set_schedule("py", {"every_s": 60, "group": {"array": {"size": 2, "run": both}}})["group"]["array"]["run"],
    api.members(api.pipeline({"a": both, "b": {"image": "i", "artifacts": {"in": {"/y": here / "y.csv"}, "out": {"m": {"path": "/m"}}}}}))["b"].data,
]
print(source == {"file": source["file"]}, all(each["artifacts"] == {"in": {"/y": source}, "out": {"m": {"path": "/m"}}} for each in found))
print(api.apply({"id": "py", "version": "2", "image": "i", "files": {"/y": here / "y.csv"}})["files"])`);
    assert.equal(told, "True True\n{'/y': {'content': 'c,d\\n'}}\n");
  });

  test('are refused before anything is sent, and are not written outside of the folder', async () => {
    await mkdir(join(folder, 'bad'));
    await symlink('../x', join(folder, 'bad/l'));
    const refused = await printed(`
from longshore.files import _place
sent = []
api._object = lambda *args, **more: sent.append(args)
try: api.run_image("i", in_files={"/a": here / "bad", "/b": here / "x.csv"})
except ValueError as error: print(str(error).replace(str(here), ""))
print(sent)
(here / "out").mkdir()
(here / "out/link").symlink_to(here)
for name in ("../x", "a/../../x", "/x", "a//x", ".", "a\\0b", "link/x"):
    try: print(_place(here / "out", name))
    except ValueError as error: print(str(error).replace(str(here), "").split(" is ", 1)[1])`);
    assert.equal(
      refused,
      `/bad/l is a link that leads out of /bad\n[]\n${'no name of a file here\n'.repeat(6)}a link, which is not followed\n`,
    );
  });

  test('are sent as the values of inputs, of single runs and of arrays', async () => {
    const body = { id: 'convert', version: '1', image: 'i', input_specs: { table: { type: 'file' } } };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 201);
    await writeFile(join(folder, 'table.csv'), '1,2\n');
    const ids = await printed(`
run = api.run("convert", {"table": here / "table.csv"})
group = api.array("convert", [{"table": here / "table.csv"}])
print(run.id, group.id)`);
    const [run, group] = ids.trim().split(' ');
    const { body: listed } = await until(
      () => service.send('GET', `/runs?group=${group}`),
      ({ body: { data } }) => data.length === 1,
    );
    const given = [run, listed.data[0].id].map(
      async (id) => (await service.send('GET', `/runs/${id}`)).body.inputs.table.$artifact.file,
    );
    const [file, again] = await Promise.all(given);
    assert.equal(again, file);
    const { name, state, used_by: uses } = await files.get(file);
    assert.deepEqual([name, state, uses], ['table.csv', 'stored', 2]);
  });
});
