import dns from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { promisify } from 'node:util';
import { errorCode } from './errors.js';
import { parseNetworks } from './networks.js';

/** Global unicast addresses of IPv6. Those that carry an address of IPv4 are outside of it, or among the exceptions. */
const PUBLIC_IPV6 = networks('2000::/3');

/** What is not public: https://www.iana.org/assignments/iana-ipv4-special-registry, the one of IPv6, and multicast. */
const NOT_PUBLIC = networks(
  '0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.0.0.0/24,192.0.2.0/24,192.88.99.0/24,' +
    '192.168.0.0/16,198.18.0.0/15,198.51.100.0/24,203.0.113.0/24,224.0.0.0/3,' +
    '2001::/23,2001:db8::/32,2002::/16,3fff::/20',
);

/** Why a URL must not be connected to. */
export class AddressRefused extends Error {}

export interface AddressRules {
  /** Whether http URLs are taken beside https ones. */
  readonly isHttpAllowed: boolean;
  /** Networks whose addresses count as public, as `parseNetworks` reads them; absent: none. */
  readonly networks: string | undefined;
  /** The setting that has these networks, for messages. */
  readonly setting: string;
}

/** Decides which URLs of users may be connected to: when they are given, and again for each connection. */
export class PublicAddresses {
  readonly #rules: AddressRules;
  readonly #allowed: BlockList;

  constructor(rules: AddressRules) {
    this.#rules = rules;
    this.#allowed = networks(rules.networks);
  }

  /** @throws AddressRefused for a URL that must not be used, or whose host has an address that must not be connected to */
  async check(text: string): Promise<void> {
    await promisify(this.lookup)(hostOf(this.checkUrl(text)), {});
  }

  /** As `check`, without looking up a name. */
  checkUrl(text: string): URL {
    const { isHttpAllowed } = this.#rules;
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url?.protocol !== 'https:' && !(isHttpAllowed && url?.protocol === 'http:')) {
      throw new AddressRefused(`url must be an ${isHttpAllowed ? 'http or https' : 'https'} URL`);
    }
    if (url.username !== '' || url.password !== '' || url.hash !== '') {
      throw new AddressRefused('url must have no user name, password or fragment');
    }
    const host = hostOf(url);
    const refusal = isIP(host) === 0 ? undefined : this.#refusalOf(host);
    if (refusal) throw refusal;
    return url;
  }

  /** Looks up the addresses of a connection, so that those that are checked are those that are connected to. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    dns.lookup(hostname, { all: true }, (error, found) => {
      const unknown = error && new AddressRefused(`the host of url has no address: ${errorCode(error)}`);
      const [refusal = unknown] = (found ?? []).flatMap(({ address }) => this.#refusalOf(address) ?? []);
      const [first] = found ?? [];
      if (refusal || !first) callback(refusal ?? new AddressRefused('the host of url has no address'), '');
      else if (options.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };

  #refusalOf(address: string): AddressRefused | undefined {
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
    const isPublic =
      (family === 'ipv4' || PUBLIC_IPV6.check(address, family)) && !NOT_PUBLIC.check(address, family);
    if (isPublic || this.#allowed.check(address, family)) return undefined;
    return new AddressRefused(
      `the host of url has an address that is neither public nor in ${this.#rules.setting}`,
    );
  }
}

function networks(text: string | undefined): BlockList {
  return (text === undefined ? undefined : parseNetworks(text)) ?? new BlockList();
}

/** The host of a URL, an address of IPv6 without its brackets. Unusual forms of addresses are the usual one in a URL. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}
