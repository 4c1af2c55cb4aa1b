import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';

interface Props {
  readonly isFiltered: boolean;
  readonly isNewest: boolean;
  /** What the service has against the address of the page. */
  readonly refusal: string | undefined;
  readonly onClear: () => void;
  readonly onNewest: () => void;
}

/** Why there are no runs to show, and the way to some. */
export function NoRuns({ isFiltered, isNewest, refusal, onClear, onNewest }: Props) {
  const newest = <Button onClick={onNewest}>Newest runs</Button>;
  const clear = <Button onClick={onClear}>Clear filters</Button>;
  if (refusal !== undefined) {
    return (
      <EmptyState
        icon="warning"
        title={isNewest ? 'The service refused these filters' : 'This page no longer exists'}
        action={isNewest ? clear : newest}
      >
        {refusal}.
        {!isNewest &&
          ' Runs are removed when their retention is over, and pages that began with them go too.'}
      </EmptyState>
    );
  }
  if (!isNewest) return <EmptyState icon="runs" title="No runs on this page" action={newest} />;
  if (isFiltered) {
    return (
      <EmptyState title="No run matches these filters" action={clear}>
        Definition, image and topic are compared to the letter.
      </EmptyState>
    );
  }
  return (
    <EmptyState icon="runs" title="No runs yet">
      Create one with the button above, or over the API: POST /runs.
    </EmptyState>
  );
}
