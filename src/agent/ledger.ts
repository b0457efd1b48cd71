import type { Planned, SettledModelCall } from "../db/log.ts";
import { chargeOf, nothingReserved, type Refusal } from "../limits/budget.ts";
import { costOf, type Price } from "../limits/prices.ts";
import type { ModelReply } from "../model/model.ts";

/** What was asked of the run from outside. */
export interface Asked {
  cancelAt: number | null;
  pauseAt: number | null;
}

const notAsked: Asked = { cancelAt: null, pauseAt: null };

/** What of a reply says what it cost. */
export type Ended = Pick<ModelReply, "usage" | "responseId">;

/** What the newest request of a run met when it was planned, and what it is charged when it ends: one is open at a time. */
export function openLedger(priceOf: (model: string) => Price | null) {
  let price: Price | null = null;
  let planned: Planned = { cancelAt: null, pauseAt: null, reserved: nothingReserved, refusal: null };
  return {
    begin(model: string): void {
      price = priceOf(model);
      planned = { ...planned, reserved: nothingReserved, refusal: null };
    },
    /** Whether there is a request now. */
    record(answer: Planned): boolean {
      planned = answer;
      return answer.refusal === null;
    },
    /** What people ask of it, seen between two plans. */
    look({ cancelAt, pauseAt }: Asked = notAsked): void {
      planned = { ...planned, cancelAt, pauseAt };
    },
    /** What people asked of the run, as of the last plan or look. */
    asked(): Asked {
      const { cancelAt, pauseAt } = planned;
      return { cancelAt, pauseAt };
    },
    /** Why the last plan came to nothing. */
    refusal: (): Refusal | null => planned.refusal,
    settle(n: number, { usage, responseId }: Ended): SettledModelCall {
      const costMicro = price && costOf(price, usage);
      return { n, usage, responseId, charge: chargeOf({ reserved: planned.reserved, usage, costMicro }) };
    },
  };
}
