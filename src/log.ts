/** Levels in order; a logger at `info` drops `debug`. */
export type LogLevel = "silent" | "info" | "debug";

/** Named facts, one line each: `run.claimed run=… epoch=2`. */
export interface Logger {
  info(event: string, facts?: Record<string, unknown>): void;
  debug(event: string, facts?: Record<string, unknown>): void;
  /** Facts of the moment, many a second, for a display that is always up to date. They are never written. */
  live?(event: string, facts: Record<string, unknown>): void;
}

const order: Record<LogLevel, number> = { silent: 0, info: 1, debug: 2 };

/** A logger that writes lines through `write`; libraries get the silent one. */
export function createLogger(level: LogLevel, write: (line: string) => void = () => {}): Logger {
  const log =
    (at: LogLevel) =>
    (event: string, facts: Record<string, unknown> = {}) => {
      if (order[level] >= order[at]) write(formatLine(event, facts));
    };
  return { info: log("info"), debug: log("debug") };
}

/** A logger that puts these facts first. */
export function withFacts(logger: Logger, more: Record<string, unknown>): Logger {
  return {
    info: (event, facts) => logger.info(event, { ...more, ...facts }),
    debug: (event, facts) => logger.debug(event, { ...more, ...facts }),
    ...(logger.live && { live: (event, facts) => logger.live?.(event, { ...more, ...facts }) }),
  };
}

export const silentLogger = createLogger("silent");

function formatLine(event: string, facts: Record<string, unknown>): string {
  const pairs = Object.entries(facts).map(([name, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return `${name}=${/^[\w./:-]*$/.test(text) ? text : JSON.stringify(text)}`;
  });
  return [new Date().toISOString(), event, ...pairs].join(" ");
}
