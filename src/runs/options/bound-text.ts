import { clip } from '@longshore/common/json/text';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import type { BoundRun } from './option-kinds.js';

const RUN_ID = '${run.id}';
const RUN_NAME = '${run.name}';
const REFERENCE = /\$\{[^}]*\}?/g;

/** As long as the id of a run. */
const SAMPLE_ID = '00000000-0000-0000-0000-000000000000';

/** Why a text cannot be what it is for, in words; undefined: it can. */
type Rule = (text: string, at: string) => string | undefined;

/** As the rule, for a text that may refer to the id of its run. */
export function unboundProblem(text: string, at: string, rule: Rule): string | undefined {
  return rule(text.replaceAll(RUN_ID, SAMPLE_ID), at);
}

/** The text for a run. @throws InvalidRequest for a reference that it does not have, and a text that the rule refuses */
export function bindText(text: string, { id, name }: BoundRun, at: string, rule: Rule): string {
  const bound = text.replaceAll(REFERENCE, (reference) => {
    const value = reference === RUN_ID ? id : reference === RUN_NAME ? name : undefined;
    if (value !== undefined) return value;
    const why =
      reference === RUN_NAME ? 'the run has no name' : `unknown, only ${RUN_ID} and ${RUN_NAME} are replaced`;
    throw new InvalidRequest(VALIDATION_FAILED, [`${at}: ${clip(reference, 128)}: ${why}`]);
  });
  const problem = rule(bound, at);
  if (problem !== undefined) throw new InvalidRequest(VALIDATION_FAILED, [problem]);
  return bound;
}
