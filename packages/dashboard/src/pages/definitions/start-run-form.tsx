import { useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { ApiError, describeError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field } from '../../components/controls/field.js';
import { TextArea, TextInput } from '../../components/controls/inputs.js';
import { DefinitionLink } from '../../components/values/named-links.js';
import { RunLink } from '../../components/values/run-link.js';
import { showToast } from '../../components/feedback/toast-store.js';
import { newKey } from '../../lib/new-key.js';
import { Advanced, More } from '../../run-form/form-rows.js';
import { placeErrors, readForm } from '../../run-form/form-values.js';
import { DEFINITION_RUN_ROWS } from '../../run-form/run-fields.js';
import { useRunForm } from '../../run-form/use-run-form.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { CommandPreview } from './command-preview.js';
import type { Definition } from './definition-view.js';
import { hintOf, InputControl } from './input-control.js';
import { sortRefusal } from './run-inputs.js';
import styles from './start-run-form.module.css';
import { useRunDraft } from './use-run-draft.js';

const OPTIONS = DEFINITION_RUN_ROWS.flat();

/** Asks for what a version declares and starts a run with it. */
export function StartRunForm({ definition }: { readonly definition: Definition }) {
  const { id: name, version, input_specs: specs } = definition;
  const api = useApi();
  const [, navigate] = useLocation();
  const draft = useRunDraft(specs);
  const [isTried, setTried] = useState(false);
  const [idempotencyKey, setIdempotencyKey] = useState(newKey);

  const start = useMutation({
    mutationFn: (body: Schemas['DefinitionRunCreate']) => {
      // A request whose answer was lost may be sent again and starts no second run.
      const header = { 'Idempotency-Key': idempotencyKey };
      const params = { path: { name }, query: { version }, header };
      return unwrap(api.POST('/definitions/{name}/runs', { params, body }));
    },
    onSuccess: ({ id }) => {
      showToast('good', createdMessage(id, definition));
      navigate(`/runs/${id}`);
    },
  });
  const edited = (): void => {
    start.reset();
    setIdempotencyKey(newKey());
  };
  const options = useRunForm(OPTIONS, {}, start.error, edited);
  const change = (apply: () => void): void => {
    apply();
    edited();
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    const given = options.read();
    if (draft.isComplete && given !== undefined && !start.isPending)
      start.mutate({ ...draft.body, ...given });
  };
  const own = readForm(OPTIONS, options.values);
  const body = draft.isComplete && 'body' in own ? { ...draft.body, ...own.body } : undefined;
  useShortcut('j', 'Inputs as JSON, or as a form', () => change(draft.turn));

  const names = Object.keys(specs);
  const refused = sortRefusal(
    start.error instanceof ApiError ? start.error.errors : [],
    draft.isJson ? [] : names,
    ['inputs', 'priority', 'outputs'],
  );
  const problems = isTried ? draft.problems : NO_PROBLEMS;
  const { rest } = placeErrors(
    refused.rest,
    OPTIONS.map(({ path }) => path),
  );
  const isPlaced = start.error instanceof ApiError && start.error.errors.length > 0 && rest.length === 0;
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      {names.length > 0 && (
        <div className={styles.head}>
          <h2>Inputs</h2>
          <Button size="small" kind="quiet" onClick={() => change(draft.turn)}>
            {draft.isJson ? 'Edit as a form' : 'Edit as JSON'}
          </Button>
        </div>
      )}
      {draft.isJson ? (
        <Field
          label="Inputs as JSON"
          hint={names.length === 0 ? 'This version declares no inputs: all are accepted.' : undefined}
          error={problems.json ?? refused.fields.get('inputs')}
        >
          {(control) => (
            <TextArea
              {...control}
              rows={10}
              value={draft.json}
              onChange={(text) => change(() => draft.setJson(text))}
            />
          )}
        </Field>
      ) : (
        Object.entries(specs).map(([input, spec]) => (
          <Field
            key={input}
            label={input}
            hint={hintOf(spec)}
            error={problems.inputs.get(input) ?? refused.inputs.get(input)}
          >
            {(control) => (
              <InputControl
                control={control}
                spec={spec}
                text={draft.texts.get(input)}
                onChange={(text) => change(() => draft.setText(input, text))}
              />
            )}
          </Field>
        ))
      )}
      <h2>Run</h2>
      <Field
        label="Priority"
        hint="Higher is claimed first."
        error={problems.priority ?? refused.fields.get('priority')}
      >
        {(control) => (
          <TextInput
            {...control}
            className={styles.priority}
            value={draft.priority}
            onChange={(text) => change(() => draft.setPriority(text))}
            placeholder="0"
            inputMode="numeric"
            autoComplete="off"
            mono
          />
        )}
      </Field>
      <More
        summary="Template of outputs"
        hasError={(problems.outputs ?? refused.fields.get('outputs')) !== undefined}
      >
        <Field
          label="Outputs as JSON"
          hint="Initial content of the output file; optional."
          error={problems.outputs ?? refused.fields.get('outputs')}
        >
          {(control) => (
            <TextArea
              {...control}
              rows={4}
              value={draft.outputs}
              onChange={(text) => change(() => draft.setOutputs(text))}
              placeholder="{}"
            />
          )}
        </Field>
      </More>
      <Advanced
        rows={DEFINITION_RUN_ROWS}
        {...options}
        note="What is left empty is as the definition says."
      />
      <CommandPreview definition={definition} body={body} />
      <p className={styles.error} role="alert">
        {start.isError && !isPlaced && describeError(start.error)}
        {start.isError && isPlaced && 'The service refused some items, see above.'}
      </p>
      <div>
        <Button kind="primary" type="submit" isBusy={start.isPending}>
          Start {name} {version}
        </Button>
      </div>
    </form>
  );
}

const NO_PROBLEMS: ReturnType<typeof useRunDraft>['problems'] = { inputs: new Map() };

function createdMessage(id: string, { id: name, version }: Definition) {
  return (
    <>
      Run <RunLink id={id} /> of <DefinitionLink name={name} version={version} /> is created.
    </>
  );
}
