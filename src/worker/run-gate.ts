import { type RunGate, waitBefore } from "../agent/admission.ts";
import type { Ended } from "../agent/loop.ts";
import type { RunRow } from "../db/claim.ts";
import { type Hours, nextOpening } from "../limits/hours.ts";
import type { Work } from "./execute-run.ts";
import type { ModelBinding } from "./model-binding.ts";

/** What stands between a run and its model: the provider's gate, and the hours in which requests are allowed. */
export function runGate({ resources, claim }: Work, binding: ModelBinding): RunGate {
  const { gate, fallbackModels, name, hours } = binding;
  const { now } = resources.store;
  const opensAt = () => openingOf(hours.requests, now());
  const refusedBy = new Set<string>();
  return { gate, workerId: claim.workerId, fallbackModels, refusedBy, askedModel: name, opensAt, now };
}

/**
 * What a run that was claimed had better wait for at once, before it gets a workspace: no model may be asked for long, or it
 * has not begun and nothing may begin now.
 */
export async function waitBeforeRun(
  gate: RunGate,
  { binding, row }: { binding: Pick<ModelBinding, "name" | "hours">; row: Pick<RunRow, "seq"> },
): Promise<Extract<Ended, { wait: unknown }> | undefined> {
  const opensAt = () => openingOf(binding.hours.starts, gate.now());
  const hasBegun = row.seq > 0;
  const wait = await waitBefore(hasBegun ? gate : { ...gate, opensAt }, binding.name);
  if (!wait) return undefined;
  const isLate = wait.kind === "timer" && !hasBegun && gate.opensAt() <= gate.now();
  const note = isLate ? "later than latestStart: no run begins until the allowed hours do" : wait.message;
  return { wait: { kind: wait.kind, note, wakeAt: wait.wakeAt } };
}

function openingOf(hours: Hours | null, now: number): number {
  return hours === null ? now : nextOpening(hours, now);
}
