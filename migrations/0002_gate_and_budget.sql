CREATE TABLE `budgets` (
	`scope` text PRIMARY KEY NOT NULL,
	`cap_micro` integer,
	`used_micro` integer DEFAULT 0 NOT NULL,
	`cap_tokens` integer,
	`used_tokens` integer DEFAULT 0 NOT NULL,
	`exhausted_at` integer
);
--> statement-breakpoint
CREATE TABLE `gate_slots` (
	`name` text NOT NULL,
	`worker_id` text NOT NULL,
	`held` integer NOT NULL,
	PRIMARY KEY(`name`, `worker_id`),
	FOREIGN KEY (`worker_id`) REFERENCES `workers`(`id`) ON UPDATE no action ON DELETE cascade
);
--> statement-breakpoint
CREATE TABLE `gates` (
	`name` text PRIMARY KEY NOT NULL,
	`reason` text,
	`note` text,
	`paused_until` integer,
	`concurrency` integer,
	`interval_ms` integer DEFAULT 0 NOT NULL,
	`next_at` integer DEFAULT 0 NOT NULL,
	`served` integer DEFAULT 0 NOT NULL,
	`refusals` integer DEFAULT 0 NOT NULL,
	`refused_at` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
DROP INDEX `calls_open`;--> statement-breakpoint
ALTER TABLE `model_calls` ADD `reserved_tokens` integer;--> statement-breakpoint
ALTER TABLE `runs` ADD `uncounted_tokens` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
-- What was asked before there were prices has no cost that is known.
UPDATE `runs` SET `unpriced_calls` = (SELECT count(*) FROM `model_calls` WHERE `run_id` = `runs`.`id` AND `state` <> 'sent');
