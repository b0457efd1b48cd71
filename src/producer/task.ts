import { z } from "zod";
import { protocolNames } from "../protocol-name.ts";

/** Bounds every run has unless its task says otherwise. */
export const defaultMaxSteps = 100;

/**
 * What a run is asked to do, stored with it as one versioned document. Model, base URL and environment are fixed by the
 * run's first owner, so that enqueueing needs no key.
 */
export const specSchema = z.object({
  version: z.literal(1),
  prompt: z.string(),
  /** Absolute path or URL. */
  repo: z.string().nullable(),
  ref: z.string().nullable(),
  /** Absolute path of a folder to work in as it is. */
  dir: z.string().nullable(),
  maxSteps: z.number().int().positive(),
  /** Active time in milliseconds, over all owners; null is without limit. */
  timeLimitMs: z.number().int().positive().nullable(),
  model: z.string().nullable(),
  /** Names of the tools to offer; null is all. */
  tools: z.array(z.string()).nullable(),
  /** Text that replaces the default system prompt. */
  systemPrompt: z.string().nullable(),
  /** How the model writes its actions; absent is what is configured. */
  protocol: z.enum(protocolNames).optional(),
  /** What becomes of the workspace after a call whose outcome is unknown; absent is `keep`. */
  onInterrupt: z.enum(["keep", "rollback"]).optional(),
  /** What a fork is told after the copied log. */
  followUp: z.string().optional(),
  /** What the first owner settled for good; absent until then. */
  fixed: z
    .object({
      model: z.string(),
      baseUrl: z.string().nullable(),
      /** How to speak with it; absent: guessed from the base URL. */
      provider: z.string().optional(),
      protocol: z.enum(protocolNames),
      environment: z.literal("local"),
    })
    .optional(),
});
export type TaskSpec = z.infer<typeof specSchema>;

/** What a new attempt at a task does differently. */
export type TaskChanges = Partial<
  Pick<
    TaskSpec,
    "maxSteps" | "timeLimitMs" | "model" | "tools" | "systemPrompt" | "protocol" | "onInterrupt"
  > & {
    priority: number;
  }
>;

/** A task ready to be enqueued. */
export interface NewTask {
  spec: TaskSpec;
  /** Unique in its batch; null makes a new run every time. */
  key: string | null;
  batch: string | null;
  priority: number;
}

/** What became of an enqueued task. */
export interface EnqueueResult {
  id: string;
  key: string | null;
  created: boolean;
  /** Only when the key existed and its task differs; the run is untouched. */
  changed?: true;
}
