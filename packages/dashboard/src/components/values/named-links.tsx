import { Link } from 'wouter';

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
