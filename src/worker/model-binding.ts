import type { Protocol } from "../agent/protocols/protocol.ts";
import type { ModelParameters } from "../config/model-parameters.ts";
import type { Gate } from "../limits/gate.ts";
import type { OpeningHours } from "../limits/hours.ts";
import type { Price } from "../limits/prices.ts";
import type { Model } from "../model/model.ts";

/** The model a run is bound to, and what is known of it. */
export interface ModelBinding {
  model: Model;
  name: string;
  baseUrl: string | null;
  /** Name of the profile of the service; null for a model of the program's own. */
  provider: string | null;
  protocol: Protocol;
  contextTokens: number;
  maxOutputTokens: number;
  /** What the task and the configuration say of it, to be stored with the run. */
  parameters: ModelParameters;
  /** Null before a program's own model. */
  gate: Gate | null;
  /** Models to ask where this one may not be asked for long. */
  fallbackModels: string[];
  hours: OpeningHours;
  /** What a model costs there; null where nobody knows. */
  priceOf(model: string): Price | null;
}

/** A binding that suits the server. */
export interface FittedBinding extends ModelBinding {
  fit: {
    /** The window that the server named; null where it did not. */
    contextTokens: number | null;
    /** Why the protocol is ReAct although nobody chose it; null where that is not so. */
    protocolChange: string | null;
    /** Has the reason remembered for runs that begin later. Null where somebody chose the protocol: then it stays. */
    onToolsRefused: ((why: string) => void) | null;
  };
}
