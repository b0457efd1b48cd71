import { BlockList, isIP } from "node:net";
import { ConfigError } from "../errors.ts";

/** Throws ConfigError for a base URL or key that no request could carry. Neither is in the message: both may hold secrets. */
export function requireEndpoint(baseUrl: string, apiKey: string | null): void {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new ConfigError(
      "expected a base URL such as https://api.openai.com/v1, with http or https and without a password; check OPENAI_BASE_URL",
    );
  }
  if (apiKey && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new ConfigError(
      "expected an API key of printable ASCII characters without blanks; check OPENAI_API_KEY",
    );
  }
}

/** Whether what is sent there can be read by nobody else: it is encrypted, or stays in this network. */
export function isProtectedUrl(baseUrl: string): boolean {
  return URL.canParse(baseUrl) && (new URL(baseUrl).protocol === "https:" || isLocalUrl(baseUrl));
}

/** Whether a URL names this machine or a private network. A name without dots never leaves it (a service of compose). */
export function isLocalUrl(baseUrl: string): boolean {
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, "").toLowerCase();
  const family = isIP(host);
  if (family === 0) return !host.includes(".") || /\.(localhost|local|internal)$/.test(host);
  return privateNetworks().check(host, family === 6 ? "ipv6" : "ipv4");
}

function privateNetworks(): BlockList {
  const networks = new BlockList();
  networks.addAddress("0.0.0.0");
  networks.addSubnet("127.0.0.0", 8);
  networks.addSubnet("10.0.0.0", 8);
  networks.addSubnet("172.16.0.0", 12);
  networks.addSubnet("192.168.0.0", 16);
  networks.addSubnet("169.254.0.0", 16);
  networks.addAddress("::1", "ipv6");
  networks.addSubnet("fc00::", 7, "ipv6");
  networks.addSubnet("fe80::", 10, "ipv6");
  return networks;
}
