CREATE TABLE `batches` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text,
	`spec` text,
	`created_at` integer NOT NULL,
	`paused_at` integer,
	`max_running` integer,
	`last_claim_at` integer DEFAULT 0 NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE UNIQUE INDEX `batches_name_unique` ON `batches` (`name`);--> statement-breakpoint
CREATE TABLE `blobs` (
	`hash` text PRIMARY KEY NOT NULL,
	`body` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `calls` (
	`run_id` text NOT NULL,
	`step` integer NOT NULL,
	`ordinal` integer NOT NULL,
	`epoch` integer NOT NULL,
	`origin` text NOT NULL,
	`tool` text NOT NULL,
	`class` text NOT NULL,
	`state` text NOT NULL,
	`provider_id` text,
	`result_seq` integer,
	`decision` text,
	`decided_by` text,
	`decided_at` integer,
	`expires_at` integer,
	`note` text,
	`started_at` integer,
	`ended_at` integer,
	PRIMARY KEY(`run_id`, `step`, `ordinal`),
	FOREIGN KEY (`run_id`) REFERENCES `runs`(`id`) ON UPDATE no action ON DELETE cascade
) WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `calls_open` ON `calls` (`run_id`) WHERE state IN ('planned', 'asked', 'started');--> statement-breakpoint
CREATE INDEX `calls_asked` ON `calls` (`expires_at`) WHERE state = 'asked';--> statement-breakpoint
CREATE TABLE `compactions` (
	`run_id` text NOT NULL,
	`n` integer NOT NULL,
	`kind` text NOT NULL,
	`through_seq` integer NOT NULL,
	`body` text NOT NULL,
	`model_call` integer,
	`tokens_before` integer NOT NULL,
	`tokens_after` integer NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`run_id`, `n`),
	FOREIGN KEY (`run_id`) REFERENCES `runs`(`id`) ON UPDATE no action ON DELETE cascade
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `events` (
	`id` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`run_id` text,
	`batch_id` text,
	`worker_id` text,
	`epoch` integer,
	`kind` text NOT NULL,
	`data` text,
	FOREIGN KEY (`run_id`) REFERENCES `runs`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE INDEX `events_run` ON `events` (`run_id`,`id`);--> statement-breakpoint
CREATE TABLE `messages` (
	`id` integer PRIMARY KEY NOT NULL,
	`run_id` text NOT NULL,
	`seq` integer NOT NULL,
	`step` integer NOT NULL,
	`epoch` integer NOT NULL,
	`kind` text NOT NULL,
	`ordinal` integer,
	`body` text NOT NULL,
	`tokens` integer NOT NULL,
	`at` integer NOT NULL,
	FOREIGN KEY (`run_id`) REFERENCES `runs`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE UNIQUE INDEX `messages_run_seq` ON `messages` (`run_id`,`seq`);--> statement-breakpoint
CREATE TABLE `meta` (
	`key` text PRIMARY KEY NOT NULL,
	`value` text NOT NULL
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `model_calls` (
	`run_id` text NOT NULL,
	`n` integer NOT NULL,
	`step` integer NOT NULL,
	`epoch` integer NOT NULL,
	`purpose` text NOT NULL,
	`model` text NOT NULL,
	`state` text NOT NULL,
	`reserved_micro` integer,
	`cost_micro` integer,
	`prompt_tokens` integer,
	`completion_tokens` integer,
	`cached_tokens` integer,
	`reasoning_tokens` integer,
	`error` text,
	`response_id` text,
	`started_at` integer NOT NULL,
	`ended_at` integer,
	PRIMARY KEY(`run_id`, `n`),
	FOREIGN KEY (`run_id`) REFERENCES `runs`(`id`) ON UPDATE no action ON DELETE cascade
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `runs` (
	`id` text PRIMARY KEY NOT NULL,
	`batch_id` text NOT NULL,
	`key` text,
	`attempt` integer DEFAULT 1 NOT NULL,
	`superseded` integer DEFAULT 0 NOT NULL,
	`origin` text,
	`origin_run_id` text,
	`origin_seq` integer,
	`spec` text NOT NULL,
	`spec_hash` text NOT NULL,
	`prompt_hash` text,
	`repo` text,
	`lane` text,
	`model` text,
	`priority` integer DEFAULT 0 NOT NULL,
	`status` text DEFAULT 'queued' NOT NULL,
	`reason` text,
	`wait_kind` text,
	`wait_note` text,
	`wake_at` integer,
	`ready` integer DEFAULT 1 NOT NULL,
	`epoch` integer DEFAULT 0 NOT NULL,
	`owner_id` text,
	`generation` integer DEFAULT 1 NOT NULL,
	`published` integer DEFAULT 0 NOT NULL,
	`seq` integer DEFAULT 0 NOT NULL,
	`steps` integer DEFAULT 0 NOT NULL,
	`strikes` integer DEFAULT 0 NOT NULL,
	`claim_seq` integer DEFAULT 0 NOT NULL,
	`cancel_at` integer,
	`pause_at` integer,
	`active_ms` integer DEFAULT 0 NOT NULL,
	`prompt_tokens` integer DEFAULT 0 NOT NULL,
	`completion_tokens` integer DEFAULT 0 NOT NULL,
	`cached_tokens` integer DEFAULT 0 NOT NULL,
	`cost_micro` integer DEFAULT 0 NOT NULL,
	`unpriced_calls` integer DEFAULT 0 NOT NULL,
	`base_commit` text,
	`head_commit` text,
	`branch` text,
	`tree` text,
	`outcome` text,
	`created_at` integer NOT NULL,
	`started_at` integer,
	`finished_at` integer,
	FOREIGN KEY (`batch_id`) REFERENCES `batches`(`id`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`prompt_hash`) REFERENCES `blobs`(`hash`) ON UPDATE no action ON DELETE no action,
	FOREIGN KEY (`owner_id`) REFERENCES `workers`(`id`) ON UPDATE no action ON DELETE no action
);
--> statement-breakpoint
CREATE UNIQUE INDEX `runs_key` ON `runs` (`batch_id`,`key`) WHERE key IS NOT NULL AND superseded = 0;--> statement-breakpoint
CREATE INDEX `runs_ready` ON `runs` (`batch_id`,priority DESC,`id`) WHERE status = 'queued' AND ready = 1;--> statement-breakpoint
CREATE INDEX `runs_behind` ON `runs` (`lane`,priority DESC,`id`) WHERE status = 'queued' AND ready = 0;--> statement-breakpoint
CREATE INDEX `runs_lane` ON `runs` (`lane`) WHERE lane IS NOT NULL AND ready = 1 AND finished_at IS NULL;--> statement-breakpoint
CREATE INDEX `runs_running` ON `runs` (`owner_id`,`lane`) WHERE status = 'running';--> statement-breakpoint
CREATE INDEX `runs_wake` ON `runs` (`wake_at`) WHERE status = 'waiting' AND wake_at IS NOT NULL;--> statement-breakpoint
CREATE INDEX `runs_counts` ON `runs` (`batch_id`,`status`,`reason`) WHERE superseded = 0;--> statement-breakpoint
CREATE TABLE `snapshots` (
	`run_id` text NOT NULL,
	`seq` integer NOT NULL,
	`tree` text NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`run_id`, `seq`),
	FOREIGN KEY (`run_id`) REFERENCES `runs`(`id`) ON UPDATE no action ON DELETE cascade
) WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `workers` (
	`id` text PRIMARY KEY NOT NULL,
	`host` text NOT NULL,
	`boot_id` text,
	`pid_namespace` text,
	`pid` integer NOT NULL,
	`start_ticks` text,
	`version` text NOT NULL,
	`lease_until` integer NOT NULL,
	`drain_at` integer,
	`started_at` integer NOT NULL,
	`stopped_at` integer,
	`detail` text
) WITHOUT ROWID;
