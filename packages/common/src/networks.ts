import { BlockList, isIP } from 'node:net';

/** The networks of a comma-separated list in CIDR notation; undefined: an entry is none. */
export function parseNetworks(text: string): BlockList | undefined {
  const networks = new BlockList();
  for (const entry of text.split(',')) {
    const [, address = '', bits = ''] = /^\s*([0-9A-Fa-f.:]+)\/(\d{1,3})\s*$/.exec(entry) ?? [];
    const family = isIP(address);
    if (family === 0 || Number(bits) > (family === 4 ? 32 : 128)) return undefined;
    networks.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6');
  }
  return networks;
}
