import { shellWords } from '@longshore/common/shell-words';
import { keepPreviousData, useMutation, useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { showToast } from '../../components/feedback/toasts.js';
import { DefinitionLink, RunLink } from '../../components/values/named-links.js';
import { useSettled } from '../../hooks/use-settled.js';
import { newKey } from '../../lib/new-key.js';
import { Advanced, FormRows, More } from '../../run-form/form-rows.js';
import { fillForm, readForm, type FormField } from '../../run-form/form-values.js';
import { DEFINITION_RUN_ROWS, RUN_NAME_ROWS } from '../../run-form/run-fields.js';
import { useRunForm } from '../../run-form/use-run-form.js';
import { useShortcut } from '../../shell/shortcuts.js';
import type { Definition } from './definition-details.js';
import { commandLine, inputFields } from './run-inputs.js';
import styles from './start-run-form.module.css';

const PRIORITY: FormField = {
  path: 'priority',
  kind: 'integer',
  label: 'Priority',
  hint: 'Higher is claimed first.',
  placeholder: '0',
};
const OUTPUTS: FormField = {
  path: 'outputs',
  kind: 'object',
  label: 'Outputs as JSON',
  hint: 'Initial content of the output file; optional.',
  placeholder: '{}',
  rows: 4,
};
const OPTIONS = [...RUN_NAME_ROWS.flat(), PRIORITY, OUTPUTS, ...DEFINITION_RUN_ROWS.flat()];

/** Asks for what a version declares and starts a run with it. Without declared inputs there is only their JSON text. */
export function StartRunForm({ definition }: { readonly definition: Definition }) {
  const { id: name, version, input_specs: specs } = definition;
  const api = useApi();
  const [, navigate] = useLocation();
  const [idempotencyKey, setIdempotencyKey] = useState(newKey);
  const declared = inputFields(specs);
  const [isJson, setJson] = useState(declared.length === 0);
  const json: FormField = {
    path: 'inputs',
    kind: 'object',
    label: 'Inputs as JSON',
    ...(declared.length === 0 && { hint: 'This version declares no inputs: all are accepted.' }),
    required: 'Enter a JSON object, such as {"a": 1}.',
    rows: 10,
  };
  const inputs = isJson ? [json] : declared;

  const start = useMutation({
    mutationFn: (body: Schemas['DefinitionRunCreate']) => {
      // A request whose answer was lost may be sent again and starts no second run.
      const header = { 'Idempotency-Key': idempotencyKey };
      const params = { path: { name }, query: { version }, header };
      return unwrap(api.POST('/definitions/{name}/runs', { params, body }));
    },
    onSuccess: ({ id }) => {
      noteCreated(id, definition);
      navigate(`/runs/${id}`);
    },
  });
  const onEdit = (): void => {
    start.reset();
    setIdempotencyKey(newKey());
  };
  const form = useRunForm({
    fields: [...inputs, ...OPTIONS],
    initial: { inputs: '{}' },
    refusal: start.error,
    onEdit,
  });
  const body = form.body === undefined ? undefined : { inputs: {}, ...form.body };
  /** Goes from fields to JSON or back, with what was entered; from JSON that cannot be read it does not go. */
  const turn = (): void => {
    const { body: entered, errors } = readForm(inputs, form.values);
    if (declared.length === 0 || (isJson && Object.keys(errors).length > 0)) return;
    form.set({ ...form.values, ...fillForm(isJson ? declared : [json], { inputs: {}, ...entered }) });
    setJson(!isJson);
    onEdit();
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (form.read() !== undefined && body !== undefined && !start.isPending) start.mutate(body);
  };
  useShortcut('j', 'Inputs as JSON, or as a form', turn);
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      {declared.length > 0 && (
        <div className={styles.head}>
          <h2>Inputs</h2>
          <Button size="small" kind="quiet" onClick={turn}>
            {isJson ? 'Edit as a form' : 'Edit as JSON'}
          </Button>
        </div>
      )}
      <FormRows rows={inputs.map((field) => [field])} {...form} />
      <h2>Run</h2>
      <FormRows rows={RUN_NAME_ROWS} {...form} />
      <div className={styles.priority}>
        <FormRows rows={[[PRIORITY]]} {...form} />
      </div>
      <More summary="Template of outputs" hasError={form.errors['outputs'] !== undefined}>
        <FormRows rows={[[OUTPUTS]]} {...form} />
      </More>
      <Advanced rows={DEFINITION_RUN_ROWS} {...form} note="What is left empty is as the definition says." />
      <CommandPreview definition={definition} body={body} />
      <p className={styles.error} role="alert">
        {start.isError && (form.rest || 'The service refused some items, see above.')}
      </p>
      <div>
        <Button kind="primary" type="submit" isBusy={start.isPending}>
          Start {name} {version}
        </Button>
      </div>
    </form>
  );
}

function noteCreated(id: string, { id: name, version }: Definition): void {
  const link = <DefinitionLink name={name} version={version} />;
  showToast('good', 'Run ', <RunLink id={id} />, ' of ', link, ' is created.');
}

/** How long nothing is entered before the service is asked. */
const PAUSE_MS = 400;

interface Props {
  readonly definition: Definition;
  /** What would be sent; undefined while it cannot be. */
  readonly body: Schemas['DefinitionRunCreate'] | undefined;
}

/** What a run with these inputs would execute, if the definition says that. */
function CommandPreview({ definition, body }: Props) {
  const { id: name, version, command, args, env } = definition;
  const api = useApi();
  const isTemplate = command !== null || args !== null || Object.keys(env).length > 0;
  const asked = useSettled(isTemplate && body !== undefined ? JSON.stringify(body) : undefined, PAUSE_MS);
  const { data: run } = useQuery({
    queryKey: ['dry-run', name, version, asked],
    queryFn: ({ signal }) => {
      const params = { path: { name }, query: { version, dry_run: true } };
      const sent: Schemas['DefinitionRunCreate'] = JSON.parse(asked ?? '{}');
      return unwrap(api.POST('/definitions/{name}/runs', { params, body: sent, signal }));
    },
    enabled: asked !== undefined,
    placeholderData: keepPreviousData,
  });
  if (asked === undefined || run === undefined) return null;
  return (
    <section>
      <h2>Command</h2>
      <pre className={styles.command} aria-label="Command">
        {commandText(run)}
      </pre>
    </section>
  );
}

/** The variables and the command line, as a shell would read them. */
function commandText({ image, env, command, args }: Schemas['OpRun']): string {
  const variables = Object.entries(env).map(([name, value]) => shellWords([`${name}=${value}`]));
  return [...variables, commandLine({ image, command, args })].join('\n');
}
