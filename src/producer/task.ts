import { z } from "zod";
import { modelParametersSchema } from "../config/model-parameters.ts";
import { protocolNames } from "../protocol-name.ts";

/** Bounds every run has unless its task says otherwise. */
export const defaultMaxSteps = 100;

/** An image of a task: a file as it was, stored by the hash of its data URL, or a URL that is passed on. */
const imageSchema = z.union([
  z.object({
    hash: z.string(),
    type: z.enum(["image/png", "image/jpeg", "image/gif", "image/webp"]),
    bytes: z.number(),
    /** Of the file, for people. */
    name: z.string(),
  }),
  z.object({ url: z.string() }),
]);
export type TaskImage = z.infer<typeof imageSchema>;

/**
 * What a run is asked to do, stored with it as one versioned document. Model, base URL and environment are fixed by the
 * run's first owner, so that enqueueing needs no key.
 */
export const specSchema = z.object({
  version: z.literal(1),
  prompt: z.string(),
  images: z.array(imageSchema).optional(),
  /** Absolute path or URL. */
  repo: z.string().nullable(),
  ref: z.string().nullable(),
  /** Absolute path of a folder to work in as it is. */
  dir: z.string().nullable(),
  maxSteps: z.number().int().positive(),
  /** Active time in milliseconds, over all owners; null is without limit. */
  timeLimitMs: z.number().int().positive().nullable(),
  /** What all of its requests may cost and take, over all owners; absent is without limit. */
  budgetUsd: z.number().positive().optional(),
  budgetTokens: z.number().int().positive().optional(),
  model: z.string().nullable(),
  /** What the task says of them. */
  modelParameters: modelParametersSchema.optional(),
  /** Names of the tools to offer; null is all. */
  tools: z.array(z.string()).nullable(),
  /** Text that replaces the default system prompt. */
  systemPrompt: z.string().nullable(),
  /** How the model writes its actions; absent is what is configured. */
  protocol: z.enum(protocolNames).optional(),
  /** What becomes of the workspace after a call whose outcome is unknown; absent is `keep`. */
  onInterrupt: z.enum(["keep", "rollback"]).optional(),
  /** Models to ask where the run's own may not be asked for long; absent is the configured ones. */
  fallbackModels: z.array(z.string()).optional(),
  /** When requests are sent, and until when the run may begin; absent is as configured. */
  allowedHours: z.string().optional(),
  latestStart: z.string().optional(),
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
      /** The window that the server named; absent where it did not. */
      contextTokens: z.number().int().positive().optional(),
      environment: z.literal("local"),
      /** The task's over the configured ones; absent in runs that began before there were any. */
      modelParameters: modelParametersSchema.optional(),
    })
    .optional(),
});
export type TaskSpec = z.infer<typeof specSchema>;

export const limitFields = ["fallbackModels", "allowedHours", "latestStart"] as const;
type LimitFields = (typeof limitFields)[number];

/** What a new attempt at a task does differently. */
export type TaskChanges = Partial<
  Pick<
    TaskSpec,
    | "maxSteps"
    | "timeLimitMs"
    | "budgetUsd"
    | "budgetTokens"
    | "model"
    | "modelParameters"
    | "tools"
    | "systemPrompt"
    | "protocol"
    | "onInterrupt"
    | LimitFields
  > & {
    priority: number;
  }
>;

/** Where an image is until it is stored. */
export interface ImageFile {
  hash: string;
  file: string;
}

/** A task ready to be enqueued. */
export interface NewTask {
  spec: TaskSpec;
  imageFiles?: ImageFile[];
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
