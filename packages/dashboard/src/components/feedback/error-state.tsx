import { ApiError, describeError, Unreachable } from '../../api/api-error.js';
import { Button } from '../controls/button.js';
import { EmptyState } from './empty-state.js';

interface Props {
  readonly error: unknown;
  readonly onRetry?: () => void;
}

/** Says what went wrong in place of what was to be shown, and offers to try again. */
export function ErrorState({ error, onRetry }: Props) {
  return (
    <div role="alert">
      <EmptyState
        icon="warning"
        title={titleOf(error)}
        action={onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
      >
        {describeError(error)}
      </EmptyState>
    </div>
  );
}

function titleOf(error: unknown): string {
  if (error instanceof Unreachable) return 'The service is unreachable';
  if (!(error instanceof ApiError)) return 'Something went wrong';
  if (error.status === 404) return 'Not there';
  if (error.status === 403) return 'Not allowed';
  return error.status >= 500 ? 'The service had a problem' : 'The service refused this';
}
