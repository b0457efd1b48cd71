import type { Profile } from "../../model/profiles.ts";
import type { ProtocolName } from "../../protocol-name.ts";
import { bashBlockProtocol } from "./bash-block.ts";
import { nativeProtocol } from "./native.ts";
import type { Protocol } from "./protocol.ts";
import { reactProtocol } from "./react.ts";

/** The protocol of this name; `profile` says what the server at the other end takes. */
export function createProtocol(name: ProtocolName, profile: Profile): Protocol {
  switch (name) {
    case "native":
      return nativeProtocol(profile);
    case "bash-block":
      return bashBlockProtocol();
    case "react":
      return reactProtocol();
    default:
      return name satisfies never;
  }
}
