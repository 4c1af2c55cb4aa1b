import { jsonText } from '@longshore/common/json/json-text';
import type { IdempotencyKey } from '../idempotency/idempotency.repository.js';
import type { RunCommand } from '../machine/run-command.js';
import type { NewRun, Run } from '../machine/run.js';
import { HeldBack } from '../run.errors.js';
import type { RunView } from '../http/run-view.js';
import type { MemberOutcome } from './group-commit-queue.js';
import type { Claim, ClaimOutcome } from './claim.js';
import type { Idempotency, IdempotencyLedger } from './idempotency-ledger.js';
import type { RunGroup } from './run-group.js';

/** What somebody hands in to the journal. */
export type PendingCommand =
  | { readonly kind: 'create'; readonly fresh: NewRun; readonly idempotency: Idempotency | undefined }
  | {
      readonly kind: 'change';
      readonly runId: string;
      readonly command: RunCommand;
      readonly idempotency: Idempotency | undefined;
      /** Whether the answer shows the whole run. */
      readonly wantsView: boolean;
      /** True when a command that must come before it was not carried out. */
      readonly isHeldBack?: (() => boolean) | undefined;
    }
  | { readonly kind: 'claim'; readonly claim: Claim };

/** What a command did: the run it made of it, or the run that an earlier request with the same key made or changed. */
export type Effect =
  | { readonly run: Run; readonly view?: RunView | undefined }
  | { readonly replayOf: string; readonly view?: RunView | undefined };

/** What becomes of a member. */
export type Result = Effect | ClaimOutcome;

/** A member's key, to be registered. */
export function keyOf(member: PendingCommand): IdempotencyKey[] {
  if (member.kind === 'claim' || !member.idempotency) return [];
  return [{ ...member.idempotency, runId: member.kind === 'create' ? member.fresh.id : member.runId }];
}

/** Carries a member out within its group, unless a request with its key was; claims are served later. */
export function decideMember(
  group: RunGroup,
  member: PendingCommand,
  keys: IdempotencyLedger,
): MemberOutcome<Result> {
  try {
    if (member.kind === 'claim') return { value: { kind: 'refused', runs: [] } };
    const replayOf = keys.replayOf(member.idempotency);
    if (replayOf !== null) return { value: { replayOf } };
    if (member.kind === 'change' && member.isHeldBack?.()) throw new HeldBack(member.runId);
    const run =
      member.kind === 'create' ? group.create(member.fresh) : group.change(member.runId, member.command);
    keys.use(member.idempotency);
    return { value: { run } };
  } catch (error) {
    return { error };
  }
}

/** Bytes of what a member brings along. */
export function bytesOf(member: PendingCommand): number {
  switch (member.kind) {
    case 'create':
      return jsonText(member.fresh.inputs).length + jsonText(member.fresh.outputsTemplate).length;
    case 'change': {
      const { command } = member;
      if (command.type === 'event') return jsonText(command.event.payload).length;
      return command.type === 'patch' && command.outputs ? jsonText(command.outputs).length : 0;
    }
    case 'claim':
      return 0;
  }
}
