import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { withTimeout } from '@longshore/common/timeout';
import { RunFault } from '../../runtime.js';
import { canonicalRepository, DEFAULT_REGISTRY, type ImageReference } from './image-reference.js';

/** How long the addresses of a registry are awaited, in milliseconds. */
const LOOKUP_MS = 3_000;

/** This machine, its link, and where clouds keep the credentials of a machine. IPv4 rules hold for mapped addresses, too. */
const LOCAL = new BlockList();
LOCAL.addSubnet('0.0.0.0', 8);
LOCAL.addSubnet('127.0.0.0', 8);
LOCAL.addSubnet('169.254.0.0', 16);
LOCAL.addAddress('100.100.100.200');
LOCAL.addAddress('::', 'ipv6');
LOCAL.addAddress('::1', 'ipv6');
LOCAL.addSubnet('fe80::', 10, 'ipv6');
LOCAL.addAddress('fd00:ec2::254', 'ipv6');
LOCAL.addSubnet('64:ff9b::7f00:0', 104, 'ipv6');
LOCAL.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6');

export interface ImagePolicyOptions {
  /** SERVICE_WORKER_IMAGES; null: every image. */
  readonly allowedImages: readonly string[] | null;
  /** SERVICE_WORKER_LOCAL_REGISTRIES. */
  readonly localRegistries: boolean;
  /** @returns the addresses of a host. @throws Error when it has none */
  readonly addressesOf?: (host: string) => Promise<readonly string[]>;
}

/** Decides which images the engine may be asked for: it would call any address that the name of an image has. */
export class ImagePolicy {
  private readonly isAllowed: (name: string) => boolean;

  constructor(private readonly options: ImagePolicyOptions) {
    this.isAllowed = options.allowedImages === null ? () => true : imageMatcher(options.allowedImages);
  }

  /**
   * @throws RunFault that names the setting when the image is refused
   * @throws Error when this machine does not learn the addresses of the registry
   */
  async check(reference: ImageReference): Promise<void> {
    const { registry } = reference;
    const name = canonicalRepository(reference);
    if (!this.isAllowed(name))
      throw new RunFault(
        `Image '${name}' is refused: SERVICE_WORKER_IMAGES of this worker does not allow it`,
        { reported: 'image' },
      );
    // The engine has its own way to the default registry, such as a mirror.
    if (registry === null || registry === DEFAULT_REGISTRY || this.options.localRegistries) return;
    if (await this.isLocal(registry)) {
      throw new RunFault(
        `Image '${name}' is refused: its registry is at a loopback or link-local address, ` +
          'and SERVICE_WORKER_LOCAL_REGISTRIES of this worker is off',
        { reported: 'image' },
      );
    }
  }

  /** @throws Error when its addresses are not known: it could be local */
  private async isLocal(registry: string): Promise<boolean> {
    const host = hostOf(registry);
    if (host === null || host === 'localhost' || host.endsWith('.localhost')) return true;
    if (isIP(host) > 0) return isLocalAddress(host);
    const { addressesOf = resolve } = this.options;
    const found = addressesOf(host).catch(() => []);
    const addresses = await withTimeout(LOOKUP_MS, found, []);
    if (addresses.length === 0) {
      throw new Error(
        `Image not pulled: the worker did not learn the addresses of its registry '${registry}'`,
      );
    }
    return addresses.some(isLocalAddress);
  }
}

/** The host as a URL has it: an IPv4 address in any notation becomes dotted. Null: it is no host. */
function hostOf(registry: string): string | null {
  const url = `http://${registry}/`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : null;
}

function isLocalAddress(address: string): boolean {
  return LOCAL.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

async function resolve(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** Whether patterns allow an image by its canonical name. `*` in them stands for any text. */
export function imageMatcher(patterns: readonly string[]): (name: string) => boolean {
  const allowed = patterns.map(patternOf);
  return (name) => allowed.some((pattern) => pattern.test(name));
}

function patternOf(text: string): RegExp {
  const parts = text.split('*').map((part) => part.replaceAll(/[.[\]]/g, String.raw`\$&`));
  return new RegExp(`^${parts.join('.*')}$`);
}
