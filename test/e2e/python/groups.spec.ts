import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { PythonService } from '../../support/programs/python.js';
import { skipFor } from '../../support/skip.js';
import { whyNoPython } from '../../support/workers/example-worker.js';

/** Fails at its first attempt where the inputs say so, else returns them. */
const ECHO = `
[ "$SERVICE_RUN_ATTEMPT" -gt 1 ] || ! grep -q '"fails": *true' "$SERVICE_INPUT_PATH" || exit 3
cp "$SERVICE_INPUT_PATH" "$SERVICE_OUTPUT_PATH"`;

describe('groups from Python', skipFor(whyNoPython()), () => {
  let service: PythonService;

  beforeAll(async () => {
    service = await PythonService.start(() => ({ echo: ECHO, held: 'exec sleep 600' }));
  });
  afterAll(() => service.stop());

  test('an array has a run for each of the inputs, of an image or a definition, and is made once for a key', async () => {
    const program = `
options = {"max_parallel": 2, "max_failed": 9, "name": "sweep", "labels": {"team": "x"}, "priority": 3, "idempotency_key": "k"}
group = api.array_image("echo", ({"n": n} for n in range(12)), **options)
print(group.id == api.array_image("echo", ({"n": n} for n in range(12)), **options).id)
ended = api.wait_group(group, timeout=300)
print(ended.state, ended.has_ended, ended.progress, ended.counts["completed"], ended.data["max_parallel"], ended.data["max_failed"])
runs = api.members(group.id)
print(list(runs) == list(range(12)), {index for index, run in runs.items() if run.outputs["n"] == index} == set(runs))
print(runs[3].labels, runs[3].data["priority"], ended.data["name"], f"<Group {group.id} completed 100 % 'sweep'>" == repr(ended))
api.apply({"id": "echoes", "version": "1", "image": "echo", "input_specs": {"n": {"type": "integer", "default": 7}}})
sized = api.wait_group(api.array("echoes", 2, version="1"), timeout=300)
print([run.outputs for run in api.members(sized).values()])
print([each.data["name"] for each in api.groups(state="completed", name="sweep")], len(list(api.groups())))`;
    assert.equal(
      await service.printed(program),
      "True\ncompleted True 100 12 2 9\nTrue True\n{'team': 'x'} 3 sweep True\n[{'n': 7}, {'n': 7}]\n['sweep'] 2\n",
    );
  });

  test('a pipeline hands outputs on, and after a failure executes again only what failed and what waited for it', async () => {
    const program = `
def from_(ref, place): return {"$from": {"ref": ref, "output": place}}
group = api.pipeline({
    "first": {"image": "echo", "inputs": {"n": 2**64}},
    "second": {"image": "echo", "depends_on": ["first"], "inputs": {"m": from_("first", "/n"), "fails": True}},
    "third": {"image": "echo", "depends_on": [{"ref": "second", "when": "completed"}], "inputs": {"m": from_("second", "/m")}},
})
try: api.wait_group(group, timeout=300)
except GroupFailed as failed: print(str(failed).replace(group.id, "ID"), failed.group.state)
print(api.wait_group(group, check=False).counts["cancelled"], len(list(api.list(group=group.id, state="FAILED"))))
api.retry_group(group)
print(api.wait_group(group, timeout=300).state)
print({ref: (run.attempt, run.outputs.get("m")) for ref, run in api.members(group).items()})`;
    assert.equal(
      await service.printed(program),
      'group ID is failed; failed: second failed\n1 1\ncompleted\n' +
        "{'first': (1, None), 'second': (2, 18446744073709551616), 'third': (2, 18446744073709551616)}\n",
    );
  });

  test('a group that goes on raises TimeoutError, and is cancelled with a reason', async () => {
    const program = `
group = api.array_image("held", 3, max_parallel=1)
try: api.wait_group(group, timeout=0.1)
except TimeoutError as error: print("open after 0.1 s" in str(error), api.group(group).state)
print(api.cancel_group(group, "enough").has_ended or api.wait_group(group, check=False).has_ended)
print({run.summary["cancel_reason"] for run in api.members(group).values()})`;
    assert.equal(await service.printed(program), "True open\nTrue\n{'enough'}\n");
  });
});
