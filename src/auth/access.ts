import {
  applyDecorators,
  Injectable,
  SetMetadata,
  type ExecutionContext,
  type OnModuleInit,
  type Type,
} from '@nestjs/common';
import { PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner, Reflector } from '@nestjs/core';
import { ApiBearerAuth, ApiSecurity } from '@nestjs/swagger';
import { ApiErrors, ApiScopeError } from '../common/http/errors/error.dto.js';
import { SCOPES, type KeyBinding, type Scope } from '../config/key-settings.js';

/** The authenticated caller: id, name, scopes and binding of the API key, never the key itself. */
export interface Caller extends KeyBinding {
  /** The same in every process and after every restart. */
  readonly id: string;
  /** UUID by which events name the key that sent them, as stable as `id`. */
  readonly keyId: string;
  readonly name: string;
  readonly scopes: ReadonlySet<Scope>;
  /** Names of the stores of files that the key may use; null: all. */
  readonly stores: readonly string[] | null;
  /** When the key expires; null: never. */
  readonly expiresAt: Date | null;
}

/** Who may call a route. */
export type Access =
  | { readonly kind: 'public' }
  | { readonly kind: 'any-key' }
  | { readonly kind: 'scopes'; readonly scopes: readonly [Scope, ...Scope[]] };

/** What a worker reports of itself, or what a run demands of a worker. */
export interface TagsAndCapabilities {
  readonly tags: readonly string[];
  readonly capabilities: readonly string[];
}

/** Metadata key under which a route declares its access. */
export const ACCESS = 'longshore:access';

/** Metadata key of routes that serve keys bound to workers. */
const BOUND_KEYS = 'longshore:bound-keys';

/** The route requires a key with one of the scopes, or with `admin`. */
export function AllowScopes(...scopes: [Scope, ...Scope[]]): MethodDecorator & ClassDecorator {
  const excludesScope = SCOPES.some((scope) => scope !== 'admin' && !scopes.includes(scope));
  return applyDecorators(
    requireKey({ kind: 'scopes', scopes }),
    ...(excludesScope ? [ApiScopeError(scopes[0])] : []),
  );
}

/**
 * The route serves keys that are bound to workers, too, and lets them act as these workers only; every other route
 * refuses them.
 */
export function AllowBoundKeys(): MethodDecorator & ClassDecorator {
  return SetMetadata(BOUND_KEYS, true);
}

/** The route requires a valid key of any scope. */
export function AllowAnyKey(): MethodDecorator & ClassDecorator {
  return requireKey({ kind: 'any-key' });
}

/** The route needs no key. */
export function Public(): MethodDecorator & ClassDecorator {
  return SetMetadata(ACCESS, { kind: 'public' } satisfies Access);
}

/** The access that the route's handler declares, or else its controller. `AccessCoverage` guarantees that one does. */
export function accessOf(reflector: Reflector, context: ExecutionContext): Access {
  return reflector.getAllAndOverride<Access>(ACCESS, [context.getHandler(), context.getClass()]);
}

/** Whether the route serves keys that are bound to workers. */
export function servesBoundKeys(reflector: Reflector, context: ExecutionContext): boolean {
  return (
    reflector.getAllAndOverride<true | undefined>(BOUND_KEYS, [context.getHandler(), context.getClass()]) ??
    false
  );
}

/** Whether the key is bound to ids of workers, to tags or to capabilities. */
export function isBound({ workerIds, workerTags, workerCapabilities }: KeyBinding): boolean {
  return workerIds !== null || workerTags !== null || workerCapabilities !== null;
}

/** Whether a caller may act as a worker of this id. */
export function actsAs({ workerIds }: KeyBinding, workerId: string): boolean {
  if (workerIds === null) return true;
  return workerIds.some((id) => (id.endsWith('*') ? workerId.startsWith(id.slice(0, -1)) : workerId === id));
}

/** Whether the key may be used for a worker, or for a run, with these tags and capabilities. */
export function covers(binding: KeyBinding, has: TagsAndCapabilities): boolean {
  const { tags, capabilities } = beyondBinding(binding, has);
  return tags.length === 0 && capabilities.length === 0;
}

/** Those of the tags and capabilities to which the key is not bound. */
export function beyondBinding(
  { workerTags, workerCapabilities }: KeyBinding,
  { tags, capabilities }: TagsAndCapabilities,
): TagsAndCapabilities {
  return {
    tags: workerTags === null ? [] : tags.filter((tag) => !workerTags.includes(tag)),
    capabilities:
      workerCapabilities === null ? [] : capabilities.filter((name) => !workerCapabilities.includes(name)),
  };
}

/** The scope that the caller lacks for a route, or undefined if it may call the route. */
export function missingScope(access: Access, caller: Caller): Scope | undefined {
  if (access.kind !== 'scopes' || caller.scopes.has('admin')) return undefined;
  return access.scopes.some((scope) => caller.scopes.has(scope)) ? undefined : access.scopes[0];
}

function requireKey(access: Access): MethodDecorator & ClassDecorator {
  return applyDecorators(
    SetMetadata(ACCESS, access),
    ApiSecurity('api-key'),
    ApiBearerAuth('bearer'),
    ApiErrors(401, 429),
  );
}

const scanner = new MetadataScanner();
const reflector = new Reflector();

/** Refuses to start an application that has a route without a declared access. */
@Injectable()
export class AccessCoverage implements OnModuleInit {
  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws Error that names the routes without a declared access */
  onModuleInit(): void {
    const routes = this.discovery
      .getControllers()
      .flatMap(({ metatype }) => (isClass(metatype) ? undeclaredRoutes(metatype) : []));
    if (routes.length > 0) throw new Error(`routes without a declared access: ${routes.join(', ')}`);
  }
}

/** The routes of a controller that declare no access, as `Controller.method`. */
export function undeclaredRoutes(controller: Type): string[] {
  const prototype: object = controller.prototype;
  return scanner.getAllMethodNames(prototype).flatMap((name) => {
    const handler: unknown = Reflect.get(prototype, name);
    if (typeof handler !== 'function' || !Reflect.hasMetadata(PATH_METADATA, handler)) return [];
    return reflector.getAllAndOverride(ACCESS, [handler, controller]) ? [] : [`${controller.name}.${name}`];
  });
}

function isClass(metatype: unknown): metatype is Type {
  return typeof metatype === 'function';
}
