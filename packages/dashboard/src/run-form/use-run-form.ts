import { useState } from 'react';
import { ApiError, describeError } from '../api/api-error.js';
import type { FormState } from './form-rows.js';
import {
  placeErrors,
  readForm,
  type FieldErrors,
  type FieldValue,
  type FormField,
  type FormValues,
} from './form-values.js';

/** A form whose fields make a body of the API. */
export interface RunForm extends FormState {
  /** Lines of the service's refusal that no field shows. */
  readonly rest: string;
  /** Shows what is wrong at the fields. @returns the body; undefined: it cannot be sent */
  readonly read: (base?: Readonly<Record<string, unknown>>) => Readonly<Record<string, unknown>> | undefined;
  readonly set: (values: FormValues) => void;
  readonly setError: (path: string, problem: string) => void;
}

/**
 * The state of a form.
 * @param refusal the error of the request that sent it, null without one
 * @param onEdit called at every change, so that the refusal of what was sent before can go
 */
export function useRunForm(
  fields: readonly FormField[],
  initial: FormValues,
  refusal: unknown,
  onEdit: () => void,
): RunForm {
  const [values, set] = useState(initial);
  const [problems, setProblems] = useState<FieldErrors>({});
  const lines = refusal instanceof ApiError ? refusal.errors : [];
  const refused = placeErrors(
    lines,
    fields.map(({ path }) => path),
  );
  return {
    values,
    errors: { ...refused.fields, ...definedOnly(problems) },
    rest: refusal === null ? '' : lines.length === 0 ? describeError(refusal) : refused.rest.join('\n'),
    onChange: (path: string, value: FieldValue) => {
      set((now) => ({ ...now, [path]: value }));
      setProblems((now) => ({ ...now, [path]: undefined }));
      onEdit();
    },
    read: (base) => {
      const read = readForm(fields, values, base);
      setProblems('errors' in read ? read.errors : {});
      return 'body' in read ? limited(read.body) : undefined;
    },
    set,
    setError: (path, problem) => setProblems((now) => ({ ...now, [path]: problem })),
  };
}

/** A key without a limit is for one run at a time. */
function limited(body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { concurrency } = body;
  return concurrency === undefined ? body : { ...body, concurrency: { limit: 1, ...Object(concurrency) } };
}

function definedOnly(errors: FieldErrors): FieldErrors {
  return Object.fromEntries(Object.entries(errors).filter(([, problem]) => problem !== undefined));
}
