import { Link } from 'wouter';
import { shortId } from '../../lib/format.js';

/** A run by its short id, leading to its page. */
export function RunLink({ id }: { readonly id: string }) {
  return (
    <Link href={`/runs/${encodeURIComponent(id)}`} title={id}>
      <code>{shortId(id)}</code>
    </Link>
  );
}

/** A worker, leading to its details. */
export function WorkerLink({ id }: { readonly id: string }) {
  return <Link href={`/workers?worker=${encodeURIComponent(id)}`}>{id}</Link>;
}

interface DefinitionLinkProps {
  readonly name: string;
  readonly version: string;
}

/** A version of a definition, leading to its page. */
export function DefinitionLink({ name, version }: DefinitionLinkProps) {
  const place = `/definitions/${encodeURIComponent(name)}?version=${encodeURIComponent(version)}`;
  return (
    <Link href={place}>
      {name} {version}
    </Link>
  );
}
