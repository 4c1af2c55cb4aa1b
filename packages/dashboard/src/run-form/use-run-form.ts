import { useState } from 'react';
import { ApiError, describeError } from '../api/answers.js';
import type { FormState } from './form-rows.js';
import { placeErrors, readForm, type FormField, type FormValues, type Json } from './form-values.js';

/** What a form is about. */
interface FormSetup {
  readonly fields: readonly FormField[];
  readonly initial: FormValues;
  /** Members of the body that no field enters. */
  readonly base?: Json;
  /** The error of the request that sent it, null without one. */
  readonly refusal: unknown;
  /** Called at every change, so that the refusal of what was sent before can go. */
  readonly onEdit: () => void;
}

/** A form whose fields make a body of the API. */
export interface RunForm extends FormState {
  /** Lines of the service's refusal that no field shows. */
  readonly rest: string;
  /** Undefined while it cannot be sent. */
  readonly body: Json | undefined;
  /** Shows what is wrong at the fields, now and while they are edited. @returns the body */
  readonly read: () => Json | undefined;
  /** The same for one field. */
  readonly check: (path: string) => void;
  readonly set: (values: FormValues) => void;
}

/** The state of a form. */
export function useRunForm({ fields, initial, base, refusal, onEdit }: FormSetup): RunForm {
  const [values, setValues] = useState(initial);
  const [checked, setChecked] = useState<'all' | readonly string[]>([]);
  const lines = refusal instanceof ApiError ? refusal.errors : [];
  const refused = placeErrors(lines, fields);
  const { body, errors } = readForm(fields, values, base);
  const problems = Object.entries(errors).filter(([path]) => checked === 'all' || checked.includes(path));
  const whole = Object.keys(errors).length === 0 ? limited(body) : undefined;
  return {
    values,
    errors: { ...refused.fields, ...Object.fromEntries(problems) },
    rest: refusal === null ? '' : lines.length === 0 ? describeError(refusal) : refused.rest.join('\n'),
    body: whole,
    onChange: (path, value) => {
      setValues((now) => ({ ...now, [path]: value }));
      onEdit();
    },
    read: () => {
      setChecked('all');
      return whole;
    },
    check: (path) => setChecked((before) => (before === 'all' ? before : [...before, path])),
    set: (next) => {
      setValues(next);
      setChecked([]);
    },
  };
}

/** A key without a limit is for one run at a time. */
function limited(body: Json): Json {
  const { concurrency } = body;
  return concurrency === undefined ? body : { ...body, concurrency: { limit: 1, ...Object(concurrency) } };
}
