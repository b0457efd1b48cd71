// What `import … from "pawl"` gives.

export { type AbortKind, RunAborted } from "./abort.ts";
export type { BatchBudget, BatchBudgetChange } from "./budgets.ts";
export type { ModelParameters } from "./config/model-parameters.ts";
export type { Settings } from "./config/settings.ts";
export {
  ConfigError,
  ModelError,
  type ModelErrorKind,
  RecoverableError,
  TerminatingError,
  type Unsupported,
} from "./errors.ts";
export { createLogger, type Logger, type LogLevel } from "./log.ts";
export type { Timeouts } from "./model/deadline.ts";
export { type Fault, type FaultKind, type FaultPlan, faulty } from "./model/faulty.ts";
export type {
  ChatMessage,
  Delta,
  Model,
  ModelReply,
  ModelRequest,
  ReplyMessage,
  ToolSchema,
  Usage,
} from "./model/model.ts";
export { type OpenaiOptions, openaiModel } from "./model/openai.ts";
export {
  call,
  calls,
  type Script,
  type ScriptedModel,
  type ScriptedReply,
  say,
  scriptedModel,
} from "./model/scripted.ts";
export type { Outcome, Reason, ReasonClass, Status, WaitKind } from "./outcome.ts";
export { openPawl, type Pawl, type PawlOptions } from "./pawl.ts";
export type { TaskInput } from "./producer/new-task.ts";
export type { EnqueueResult } from "./producer/task.ts";
export type { Phase, RunReport } from "./report/run-view.ts";
export type { StatusReport } from "./report/status.ts";
export { runAgent } from "./run-agent.ts";
export { builtInTools } from "./tools/built-in.ts";
export { defineTool, type ToolDefinition } from "./tools/define.ts";
export type { Tool, ToolClass, ToolContext, ToolOutput } from "./tools/tool.ts";
export type { Worker } from "./worker/worker.ts";
